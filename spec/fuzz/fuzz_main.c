/* libFuzzer's entry; the target is chosen when this is compiled (spec/fuzz/CMakeLists.txt). */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length) {
  FUZZ_TARGET(data, length);
  return 0;
}

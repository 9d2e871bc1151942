/* Byte strings as text: is it UTF-8, and how to show it in a message. */
#ifndef LP_WIRE_TEXT_H
#define LP_WIRE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* True for well-formed UTF-8 (no overlong forms, no surrogates, at most U+10FFFF). */
bool text_is_utf8(const char *bytes, size_t length);
/* Copies `length` bytes and tells the same about them. For long ones: they are looked at and
 * copied piece by piece, while a piece is in the processor's cache. */
bool text_copy(void *to, const char *bytes, size_t length);

/* Writes `"bytes"` for a person: controls and malformed bytes as \xHH, cut with "…"
 * after about 40 bytes. Always terminated; at most TEXT_QUOTED bytes with the end. */
enum { TEXT_QUOTED = 176 };
const char *text_quote(char out[TEXT_QUOTED], const char *bytes, size_t length);

/* True when `bytes` could stand behind a dot in Lua (and is not absurdly long). */
bool text_is_name(const char *bytes, size_t length);

#endif

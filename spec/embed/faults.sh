#!/bin/sh
# faults.sh PROGRAM N...: runs PROGRAM (minimal of bindings/c) with the N-th request for memory failing,
# once for each N, and prints what is not as it should be: it says hello and ends with status 0, or
# says in words what failed and ends with status 1.
program=$1
shift
for n; do
  status=0
  output=$(LP_FAULT_ALLOC=$n timeout -k 5 30 "$program" 2>&1 </dev/null) || status=$?
  case "$status $output" in
    "0 Hello, world!" | "1 minimal: "?*) continue ;;
  esac
  echo "LP_FAULT_ALLOC=$n: status $status: $output"
done

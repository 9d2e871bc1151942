#!/bin/sh
# faults.sh LP LAUNCH_TYPE PROGRAM TEXT N...: runs PROGRAM with the N-th request for memory
# failing, once for each N, and prints what is not as it should be: it ends in time, by itself,
# with status 0 and TEXT in its output, or with another status of ours and some words.
lp=$1 launch=$2 program=$3 text=$4
shift 4
for n; do
  status=0
  output=$(LP_FAULT_ALLOC=$n timeout -k 5 30 "$lp" run --notice 1 --launch "$launch" "$program" \
    2>&1 </dev/null) || status=$?
  case $status in
    0) case $output in *"$text"* | *"output were lost"*) continue ;; esac ;;
    124) case $output in *"not stop"* | *"not be stopped"*) continue ;; esac ;;
    1 | 2) [ -n "$output" ] && continue ;;
  esac
  echo "LP_FAULT_ALLOC=$n, $launch: status $status: $output"
done

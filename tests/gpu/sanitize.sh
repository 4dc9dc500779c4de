#!/usr/bin/env bash
# Run every kernel family under the four tools of compute-sanitizer. Needs a card; a few minutes.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export PYTHONPATH="$PWD:$PWD/tests/gpu" GPUILU_PATIENCE_SECONDS=600

failed=0
for tool in memcheck racecheck initcheck synccheck; do
    # Only this package's kernels: CuPy reads memory that it never wrote, on purpose.
    filters=(--kernel-name kernel_substring=gpuilu)
    # racecheck takes every access to shared memory that no barrier orders for a race. In
    # syncfree_solve these are atomics, fences and acquiring loads, in row_depths_by_chunk relaxed
    # accesses, on purpose.
    if [[ $tool == racecheck ]]; then
        filters+=(--kernel-name-exclude kernel_substring=syncfree_solve)
        filters+=(--kernel-name-exclude kernel_substring=row_depths_by_chunk)
    fi
    log="$(compute-sanitizer --tool "$tool" "${filters[@]}" \
        --error-exitcode 9 python3 tests/gpu/sanitize.py 2>&1)"
    status=$?
    printf '%s: status %d, %d s; %s\n' "$tool" "$status" "$SECONDS" "$(tail -n 1 <<<"$log")"
    if ((status)); then
        failed=1
        head -n 40 <<<"$log"
    fi
done
exit "$failed"

#!/usr/bin/env bash
# Run every kernel under the four tools of compute-sanitizer, each tool in four processes, one for
# each dtype, all at once. Needs a card, and five minutes at most.
# SANITIZE_SECONDS (150) is what a tool may take, SANITIZE_LOGS where the logs go.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export PYTHONPATH="$PWD:$PWD/tests:$PWD/tests/gpu" GPUILU_PATIENCE_SECONDS=600

limit="${SANITIZE_SECONDS:-150}"
logs="${SANITIZE_LOGS:-$(mktemp -d)}"
mkdir -p "$logs"
dtypes=(float64 float32 complex128 complex64)
tools=(memcheck racecheck initcheck synccheck)

# Run a command in the background: its output goes to NAME.log, its status and seconds to NAME.end.
start() {
    local name="$1"
    shift
    rm -f "$logs/$name.end"
    (
        timeout --kill-after=5 "$limit" "$@" >"$logs/$name.log" 2>&1
        printf '%d %d\n' "$?" "$SECONDS" >"$logs/$name.end"
    ) &
}

# A line for each job that has ended, and the log of one that failed: 1 if any has.
report() {
    local name status seconds failed=0
    for name in "$@"; do
        read -r status seconds <"$logs/$name.end" || return 1
        case "$status" in
        0) printf '%s: passed at %d s; %s\n' "$name" "$seconds" "$(tail -n 1 "$logs/$name.log")" ;;
        124 | 137) printf '%s: FAILED, not finished after %d s\n' "$name" "$limit" ;;
        *) printf '%s: FAILED with status %d at %d s\n' "$name" "$status" "$seconds" ;;
        esac
        if ((status)); then
            failed=1
            head -n 40 "$logs/$name.log"
        fi
    done
    return "$failed"
}

# Without a tool first: what is wrong anyhow fails here, and the kernels are compiled once for all.
plain=()
for dtype in "${dtypes[@]}"; do
    start "plain-$dtype" python3 tests/gpu/sanitize.py "$dtype"
    plain+=("plain-$dtype")
done
wait
report "${plain[@]}" || exit 1

jobs=()
for tool in "${tools[@]}"; do
    # Only this package's kernels: CuPy reads memory that it never wrote, on purpose.
    filters=(--kernel-name kernel_substring=gpuilu)
    # racecheck takes every access to shared memory that no barrier orders for a race. In
    # syncfree_solve these are atomics, fences and acquiring loads, in row_depths_by_chunk relaxed
    # accesses, on purpose.
    if [[ $tool == racecheck ]]; then
        filters+=(--kernel-name-exclude kernel_substring=syncfree_solve)
        filters+=(--kernel-name-exclude kernel_substring=row_depths_by_chunk)
    fi
    for dtype in "${dtypes[@]}"; do
        start "$tool-$dtype" compute-sanitizer --tool "$tool" "${filters[@]}" \
            --error-exitcode 9 python3 tests/gpu/sanitize.py "$dtype"
        jobs+=("$tool-$dtype")
    done
done
wait
report "${jobs[@]}"
status=$?
echo "the logs are in $logs"
exit "$status"

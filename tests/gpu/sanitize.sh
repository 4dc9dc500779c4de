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

# initcheck has to see CuPy's kernels write what ours read; that CuPy itself reads memory that it never
# wrote, on purpose, must not count: only errors in this package's kernels do.
initcheck() { # DTYPE, or "planted"
    local log="$logs/initcheck-$1.full"
    compute-sanitizer --tool initcheck --print-limit 100000 python3 tests/gpu/sanitize.py "$1" \
        >"$log" 2>&1
    grep -q "^sanitized:" "$log" || { tail -n 20 "$log"; return 1; }
    if grep -q "at .*gpuilu::" "$log"; then
        grep -B 1 -A 12 "at .*gpuilu::" "$log"
        return 9
    fi
    echo "no uninitialized reads in kernels of gpuilu"
}
export -f initcheck
export logs

# That this finds what it is to find.
start planted bash -c "initcheck planted"

jobs=()
for tool in "${tools[@]}"; do
    filters=(--kernel-name kernel_substring=gpuilu)
    # racecheck takes every access to shared memory that no barrier orders for a race. On purpose
    # there are such: in syncfree_solve atomics, fences and acquiring loads; in row_depths_by_chunk,
    # grow_patches, row_solve and row_columns (the tickets of their blocks) relaxed accesses; in strips_solve the ring
    # between gatherers and sweeper, ordered by release and acquire of its flags, as blocked.cu argues.
    # The emulator, which knows these orders, finds it when one of them is taken away.
    if [[ $tool == racecheck ]]; then
        for kernel in syncfree_solve row_depths_by_chunk grow_patches row_solve row_columns strips_solve; do
            filters+=(--kernel-name-exclude "kernel_substring=$kernel")
        done
    fi
    for dtype in "${dtypes[@]}"; do
        if [[ $tool == initcheck ]]; then
            start "$tool-$dtype" bash -c "initcheck $dtype"
        else
            start "$tool-$dtype" compute-sanitizer --tool "$tool" "${filters[@]}" \
                --error-exitcode 9 python3 tests/gpu/sanitize.py "$dtype"
        fi
        jobs+=("$tool-$dtype")
    done
done
wait
report "${jobs[@]}"
status=$?
read -r found _ <"$logs/planted.end"
if ((found == 9)); then
    echo "planted: initcheck finds a kernel that reads what nobody wrote"
else
    echo "planted: FAILED, initcheck misses a kernel that reads what nobody wrote"
    cat "$logs/planted.log"
    status=1
fi
echo "the logs are in $logs"
exit "$status"

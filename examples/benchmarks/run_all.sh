#!/usr/bin/env bash
# All records of results/, measured on this machine's GPU.
#
#   bash examples/benchmarks/run_all.sh FOLDER [STEP...]
#
# Steps, with the seconds they took on one H100 and 16 cores, matrices being there already: fast13 75,
# papers 108, apply 72, nrhs16 23, setup 17, shares 27; without a step these six, and then amg (135,
# most of it pyamg). Building all matrices takes some 80 s on 8 cores. Each step writes
# FOLDER/STEP.json after every case and goes on where that ends. Matrices are built once, in
# FOLDER/matrices.
#
# PYTHON is the interpreter; COMMIT what the records say the commit is, where git cannot.
set -u

if [ $# -lt 1 ]; then
    sed -n '2,12s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
folder=$1
shift
steps=${*:-fast13 papers apply nrhs16 setup shares amg}
python=${PYTHON:-python}
here=$(cd "$(dirname "$0")" && pwd)
failed=0
mkdir -p "$folder"

bench() { # NAME OPTION...
    local name=$1
    shift
    "$python" -m gpuilu bench run "$@" ${COMMIT:+--commit "$COMMIT"} \
        --cache "$folder/matrices" --output "$folder/$name.json" >"$folder/$name.md" || failed=1
}

# Algorithms that a user would choose, beside the vendor's.
few=auto,blocked,row,cusparse

fast13() {
    bench fast13 --group fast13 --dtypes float64,float32 --budget 1.5
}

# What fast13 does not have of the papers' grids and stand-ins.
others() {
    "$python" -m gpuilu bench cases | awk 'NR > 1 && $2 !~ /fast13/ { print $1 }' | paste -sd,
}

papers() {
    bench papers --dtypes float64,float32 --budget 1.2 --cases "$(others)"
}

apply() { # both sweeps, as Li (2017) measured, of his algorithms
    bench apply --group fast13 --cases "$(others)" --op apply --budget 0.5 \
        --algorithms $few,selfsched_col,selfsched_row,level_row
}

nrhs16() {
    bench nrhs16 --group fast13 --nrhs 16 --algorithms $few --budget 0.6
}

setup() { # not band and dense: a launch for each of 60,000 levels
    bench setup --setup --algorithms auto,cusparse --budget 0.6 --cases "$(
        "$python" -m gpuilu bench cases | awk '$2 ~ /fast13/ && $1 !~ /^(band|dense)/ { print $1 }' |
            paste -sd,
    )"
}

shares() { # narrow, wider and wide levels; the vendor's solver on the whole card only
    bench shares --shares 0.25,0.5,1 --products --budget 0.5 \
        --cases g2d5_1024x1024,fem2d_rcm,g3d7_128,road_1M,fem2d_random,kkt_100,arrow_466k \
        --algorithms $few,level_row,selfsched_col,syncfree,tile_syncfree
}

amg() {
    multigrid amg-2d 1024 1024
    multigrid amg-3d 128 128 128
}

multigrid() { # NAME SIDE...
    local name=$1 plot=()
    shift
    "$python" -c "import matplotlib" 2>/dev/null && plot=(--plot "$folder/$name.png")
    "$python" "$here/../amg_poisson.py" --grid "$@" --json "$folder/$name.json" \
        ${plot[@]+"${plot[@]}"} || failed=1
}

for step in $steps; do
    case $step in
    fast13 | papers | apply | nrhs16 | setup | shares | amg) ;;
    *)
        echo "there is no step $step" >&2
        exit 2
        ;;
    esac
    SECONDS=0
    $step
    echo "$step: $SECONDS s" >&2
done
exit $failed

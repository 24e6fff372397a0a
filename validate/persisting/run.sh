#!/bin/bash
# bash run.sh [OUT], beside a folder validate/persisting: measure what L2 keeps; default OUT is $OUT. One minute or two of one H200.
out=${1:-$OUT}; here=$(cd "$(dirname "$0")" && pwd); mkdir -p "$out"
cd "$here" && export PYTHONPATH="$here"
nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem,pci.bus_id,mig.mode.current --format=csv,noheader > "$out/persisting_gpu.csv" 2>&1
timeout 150 python3 -m validate.persisting.run "$out/persisting.json" --seconds 110
ncu=$(command -v ncu || ls -d /usr/local/cuda*/bin/ncu /opt/nvidia/nsight-compute/*/ncu 2>/dev/null | tail -1)
if [ -n "$ncu" ]; then
    m=lts__t_sectors_srcunit_tex_lookup_hit.sum,lts__t_sectors_srcunit_tex_lookup_miss.sum,dram__bytes_read.sum
    timeout 120 "$ncu" --clock-control none --cache-control none --replay-mode application --metrics $m --csv --page raw \
        --print-units base -k 'regex:touch|mixed' --log-file "$out/persisting_ncu.csv" \
        python3 -m validate.persisting.run "$out/persisting_launches.json" --counters > "$out/persisting_ncu.txt" 2>&1
    echo "ncu: status $?, $(wc -l < "$out/persisting_ncu.csv") lines"
fi

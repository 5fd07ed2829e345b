#!/usr/bin/env bash
# What events beside nginx cost it: soft timers at the ends of nginx's own system calls (trigger_preload.c), the
# same without trigger states, a timerfd that a thread reads, and a timer's signal.
#
#   beside_nginx.sh measure [seconds of each window] >> rounds.tsv    as root; nginx on the first core, wrk on the second
#   beside_nginx.sh table rounds.tsv                                  medians of all rounds
#
# Needs nginx, wrk, a C compiler, and `cargo build --release -p evenkeel-soft-timers-c`. It has a network
# namespace and a directory of its own.
set -euo pipefail

examples=$(cd "$(dirname "$0")" && pwd)
target=${CARGO_TARGET_DIR:-$examples/../../../target}/release

table() {
    # Of each row the median of the share lost, and of both latenesses.
    sort -t $'\t' -k1,1 -k2,2n "$1" | awk -F '\t' '
        function median(list, n, parts, i, j, t) {
            n = split(list, parts, " ")
            for (i = 2; i <= n; i++)
                for (j = i; j > 1 && parts[j] + 0 < parts[j - 1] + 0; j--) {
                    t = parts[j]; parts[j] = parts[j - 1]; parts[j - 1] = t
                }
            return parts[int((n + 1) / 2)]
        }
        function print_row(of) {
            printf "%-28s%10s%12.0f%9.1f%12.0f%12.1f%12.1f%7d\n", name, us, median(rates), median(lost),
                median(seen), median(half), median(most), rounds
        }
        BEGIN {
            printf "%-28s%10s%12s%9s%12s%12s%12s%7s\n", "", "every us", "requests/s", "lost %", "events/s",
                "late p50 us", "late p99 us", "rounds"
        }
        $1 "\t" $2 != row && row { print_row(); rates = lost = seen = half = most = ""; rounds = 0 }
        {
            row = $1 "\t" $2; name = $1; us = $2; rounds++
            rates = rates " " $4; lost = lost " " 100 * (1 - $4 / $3)
            seen = seen " " $5; half = half " " $6 / 1000; most = most " " $7 / 1000
        }
        END { print_row() }'
}

# One window: requests a second with these variables in nginx's environment.
serve() {
    rm -f late.txt
    env "$@" EVENKEEL_REPORT="$PWD/late.txt" taskset -c 0 nginx -p "$PWD" -c nginx.conf -e error.log
    taskset -c 1 wrk -t1 -c32 -d "$seconds" http://127.0.0.1:8080/file | awk '/^Requests\/sec/ { print $2 }'
    kill -QUIT "$(cat nginx.pid)"
    while [ -e nginx.pid ]; do sleep 0.02; done
}

# Beside a window without events: name, interval, both rates, events a second, lateness.
pair() {
    local name=$1 us=$2 alone beside late
    shift 2
    alone=$(serve EVENKEEL_BY=)
    beside=$(serve "$@")
    read -r -a late < <(cat late.txt 2> /dev/null || echo 0 0 0)
    printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$name" "$us" "$alone" "$beside" $((late[0] / ${seconds%s})) "${late[1]}" "${late[2]}"
}

measure() {
    directory=$(mktemp -d)
    trap 'rm -r "$directory"' EXIT
    cd "$directory"
    chmod 755 .
    head -c 1024 /dev/urandom > file
    cat > nginx.conf << CONF
worker_processes 1;
env EVENKEEL_BY; env EVENKEEL_INTERVAL_NS; env EVENKEEL_REPORT; env LD_PRELOAD;
user root;
pid nginx.pid;
events { worker_connections 256; }
http { access_log off; sendfile on; keepalive_requests 100000000; server { listen 127.0.0.1:8080; root $directory; } }
CONF
    cc -std=c11 -O2 -fPIC -shared -I "$examples/../include" "$examples/trigger_preload.c" \
        "$target/libevenkeel_soft_timers_c.a" -o preload.so
    ip link set lo up
    local us
    pair 'loaded, no events' 0 LD_PRELOAD="$PWD/preload.so"
    for us in 10 20 50 100; do
        event() { pair "$1" "$us" LD_PRELOAD="$PWD/preload.so" EVENKEEL_BY="$2" EVENKEEL_INTERVAL_NS=$((us * 1000)); }
        event 'soft timers' soft
        event 'soft, no trigger states' backing
        event 'timerfd' timerfd
        event 'POSIX timer' signal
    done
}

case ${1:-} in
measure)
    seconds=${2:-2}s
    if [ "${INSIDE:-}" ]; then measure; else INSIDE=1 exec unshare --net "$0" measure "${seconds%s}"; fi
    ;;
table) table "$2" ;;
*) sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac

#!/usr/bin/env bash
# `make test` gives the same answer on every machine: it is run under each of these circumstances, and every run must
# pass and execute the same tests.
#
#     benchmarks/anywhere.sh                     all of them, twice (about two hours on two cores)
#     benchmarks/anywhere.sh bare zone order-3   some of them, once each
#
# It works in clones of HEAD below a temporary folder and leaves nothing behind but the reports in out/anywhere.
set -u
top=$(cd "$(dirname "$0")/.." && pwd)
all="bare language zone user space background load crowded order-1 order-2 order-3 order-4 order-5"
for version in 3.12 3.13 3.14; do
    "python$version" -c 'import ssl, venv' > /dev/null 2>&1 && all="$all python-$version" # those that this machine has
done
reports=$top/out/anywhere
folder=$(mktemp -d)
failed=0
trap 'kill $(jobs -p) 2> /dev/null; rm -rf "$folder"' EXIT
chmod 755 "$folder"
mkdir -p "$reports"
rm -f "$reports"/*.xml # of other commits, which may have had other tests

# A clone with an environment of its own. The real transcripts are not beside it.
clone() {
    [ -d "$1" ] || { git clone --quiet "$top" "$1" && make --silent -C "$1" setup > "$reports/setup.log" 2>&1; }
}

run_as_user() { # an ordinary user, made for this run where there is none; PYTHON must be one that everybody may start
    id refold-tester > /dev/null 2>&1 || useradd --create-home refold-tester || return 1
    local home=$folder/user
    mkdir -p "$home" && chown -R refold-tester "$home" "$folder/bare.git" # git clones only what the user owns
    su refold-tester -s /bin/bash -c "
        cd '$home' && { [ -d refold ] || git clone --quiet '$folder/bare.git' refold; } \
        && make --silent -C refold setup PYTHON='${USER_PYTHON:-/usr/bin/python3}' \
        && make -C refold test OPTIONS='--junitxml=$home/report.xml'" && cp "$home/report.xml" "$1"
}

run() { # NAME REPORT
    local place="$folder/plain" options="--junitxml=$2"
    case $1 in
        bare)       clone "$place" && env -i PATH="$PATH" HOME=/nonexistent make -C "$place" test OPTIONS="$options" ;;
        language)   clone "$place" && env LANG=C LC_ALL=C make -C "$place" test OPTIONS="$options" ;;
        zone)       clone "$place" && env TZ=Asia/Kolkata make -C "$place" test OPTIONS="$options" ;;
        user)       { [ -d "$folder/bare.git" ] || git clone --quiet --bare "$top" "$folder/bare.git"; } && run_as_user "$2" ;;
        space)      clone "$folder/with a space" && make -C "$folder/with a space" test OPTIONS="$options" ;;
        background) clone "$place" && (trap '' INT QUIT; make -C "$place" test OPTIONS="$options" < /dev/null) & wait $! ;;
        load)       clone "$place" && {
                        for _ in 1 2 3 4 5 6; do (while :; do :; done) & done
                        make -C "$place" test OPTIONS="$options"; local code=$?
                        kill $(jobs -p); wait 2> /dev/null; return $code; } ;;
        crowded)    clone "$folder/crowded" && "$folder/crowded/.venv/bin/python" -m pip install --quiet botocore kubernetes numpy \
                        && make -C "$folder/crowded" test OPTIONS="$options" ;;
        python-*)   [ -d "$folder/$1" ] || { git clone --quiet "$top" "$folder/$1" && make --silent -C "$folder/$1" setup PYTHON="${1/-/}"; } \
                        && make -C "$folder/$1" test OPTIONS="$options" ;;
        order-*)    clone "$place" && env REFOLD_ORDER="${1#order-}" make -C "$place" test OPTIONS="$options" ;;
        *)          echo "unknown circumstance: $1; known: $all"; return 2 ;;
    esac
}

once() {
    for name in "$@"; do
        began=$(date +%s)
        if run "$name" "$reports/$name$round.xml" > "$reports/$name$round.log" 2>&1; then answer=passed; else answer=FAILED; failed=1; fi
        echo "$name$round: $answer, $(($(date +%s) - began)) s, $(tail -n 20 "$reports/$name$round.log" | grep -E '[0-9]+ (passed|failed)' | tail -n 1)"
    done
}

round=""
if [ $# -gt 0 ]; then once "$@"; else once $all; round=-again; once $all; fi

# Every run executed the same tests.
python3 - "$reports"/*.xml << 'PYTHON' || failed=1
import sys
import xml.etree.ElementTree as tree

runs = {}
for path in sys.argv[1:]:
    cases = tree.parse(path).getroot().iter("testcase")
    runs[path] = {f"{c.get('classname')}::{c.get('name')}" for c in cases if c.find("skipped") is None}
every = set().union(*runs.values())
for path, executed in runs.items():
    print(f"{path}: {len(executed)} executed, {len(every - executed)} missing", *sorted(every - executed)[:5], sep="\n  ")
sys.exit(any(every - executed for executed in runs.values()))
PYTHON
exit $failed

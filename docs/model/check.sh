#!/bin/sh
# Runs TLC on Lease.tla and Lock.tla. Usage: check.sh path/to/tla2tools.jar
#
# Each line at the end is a world: its name, what TLC must find, and the constants that differ. TLC must
# find a number of states without a violation, or the violation of a property. With TRACES=folder the
# output of each run is kept there.
set -eu
jar=$(realpath "$1")
here=$(dirname "$(realpath "$0")")
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
cp "$here"/*.tla "$work"
cd "$work"

run() { # module, name, what TLC must find, invariants, action property
    case $3 in
        [0-9]*) properties="INVARIANT $4
PROPERTY $5" ;;
        "$5") properties="PROPERTY $5" ;;
        *) properties="INVARIANT $3" ;;
    esac
    printf 'SPECIFICATION Spec\n%s\n' "$properties" >MC.cfg
    begin=$(date +%s)
    java -XX:+UseParallelGC -cp "$jar" tlc2.TLC -deadlock -workers 1 MC >out 2>&1 || true
    states=$(sed -n 's/.* \([0-9]*\) distinct states found, 0 states left.*/\1/p' out)
    found=$(sed -n 's/^Error: Invariant \([^ ]*\) is violated.*/\1/p' out)
    if grep -q '^Error: Action property' out; then found=$5; fi
    if grep -q 'No error has been found' out; then found=$states; fi
    steps=$(($(grep -c '^State [0-9]*:' out || true) - 1))
    echo "$1, $2: $found$([ $steps -lt 0 ] || echo " after $steps steps"), $(($(date +%s) - begin)) s"
    [ -z "${TRACES:-}" ] || cp out "$TRACES/$1 $2"
    [ "$found" = "$3" ] || { cat out; echo "expected: $3"; exit 1; }
}

lease() { # name, what TLC must find, constants that differ from the next lines
    name=$1 expected=$2
    shift 2
    FlushBound=2 ExpiryPass=2 Drift=0 Margin=1 LateBound=5 Flush=2 Pass=2 Fast=0 Pause=1 Late=30
    GrantedBefore=-1 LeftOut='{}' Grants='<<6, 6, 3>>' Creator=2 Until=9
    Packets=1 Kinds='{"multi"}' Reconnects='<<>>' Elections=0
    for constant in "$@"; do
        eval "${constant%%=*}='${constant#*=}'"
    done
    {
        echo '---- MODULE MC ----'
        echo 'EXTENDS Integers'
        echo 'VARIABLES now, leaders, conn, lingering, late, closed, e, left, clientIsDone'
        echo 'INSTANCE Lease WITH'
        for constant in FlushBound ExpiryPass Drift Margin LateBound Flush Pass Fast Pause Late \
            GrantedBefore LeftOut Grants Creator Packets Kinds Reconnects Elections; do
            eval "echo \"  $constant <- \$$constant,\""
        done
        echo "  Until <- $Until"
        echo '===='
    } >MC.tla
    run lease "$name" "$expected" SessionOutlivesGuard PromiseIsKept
}

lock() { # name, what TLC must find, contenders, deletions by the operator, rules left out
    {
        echo '---- MODULE MC ----'
        echo 'VARIABLES zxid, queue, events, alive, leased, state, node, ahead, tokens, meddled, wrongMark'
        echo "INSTANCE Lock WITH Contenders <- $3, Deletions <- $4, LeftOut <- $5"
        echo '===='
    } >MC.tla
    run lock "$1" "$2" 'OneGuard TokensGrow MarksAreTrue' LostIsLost
}

lease 'two packets' 163780 Packets=2 'Kinds={"ping","multi"}'
lease 'reconnect' 61920 'Reconnects=<<2>>'
lease 'two reconnects' 1309145 'Reconnects=<<3, 2>>'
lease 'reconnect, election' 386223 'Reconnects=<<2>>' Elections=1
lease 'two packets, election' 881758 Packets=2 'Kinds={"ping","sync"}' Elections=1
lease 'sync, reconnect, election' 670007 'Kinds={"sync"}' 'Reconnects=<<2>>' Elections=1
lease 'two packets, drift' 216532 Packets=2 'Kinds={"ping","multi"}' Drift=1 Fast=1
lease 'resumed session' 349066 GrantedBefore=6 'Reconnects=<<2>>'

lease 'flush bound' SessionOutlivesGuard Packets=2 'Kinds={"ping","multi"}' Flush=3
lease 'margin' SessionOutlivesGuard Pause=2
lease 'drift' SessionOutlivesGuard Fast=1
lease 'half timeout' PromiseIsKept 'Reconnects=<<3>>' 'Grants=<<6, 6, 2>>'
lease 'half timeout, session' SessionOutlivesGuard 'Reconnects=<<3>>' 'Grants=<<6, 6, 2>>'
lease 'expiry pass' SessionOutlivesGuard 'Reconnects=<<2>>' Pass=3
lease 'unknown timeout' SessionOutlivesGuard GrantedBefore=6 'Reconnects=<<2>>' Creator=3 \
    Elections=1 'Kinds={"create"}' 'Grants=<<6, 6, 2>>' Late=0
short='FlushBound=1 Flush=1 ExpiryPass=1 Pass=1 LateBound=1 Until=6'
lease 'late connect, in time' 607485 'Reconnects=<<3, 2>>' Packets=2 'Kinds={"create"}' \
    'Grants=<<4, 4, 2>>' Late=4 $short
lease 'late connect' SessionOutlivesGuard 'Reconnects=<<3, 2>>' Packets=2 'Kinds={"create"}' \
    'Grants=<<4, 4, 2>>' Late=5 $short
lease 'no second proof' SessionOutlivesGuard 'Reconnects=<<2>>' 'LeftOut={"second proof"}'
lease 'no quorum' SessionOutlivesGuard Packets=2 'Kinds={"ping","sync"}' Elections=1 \
    'LeftOut={"quorum"}'
lease 'forgotten connect' SessionOutlivesGuard 'Reconnects=<<3, 2>>' 'LeftOut={"abandoned"}'

lock 'two contenders' 5232 '{1, 2}' 0 '{}'
lock 'two contenders, operator' 18238 '{1, 2}' 1 '{}'
lock 'three contenders' 2188994 '{1, 2, 3}' 0 '{}'
lock 'no lease' OneGuard '{1, 2}' 0 '{"leases"}'
lock 'each deletion a release' OneGuard '{1, 2, 3}' 0 '{"marks"}'
lock 'exits marked' OneGuard '{1, 2, 3}' 0 '{"exits have no mark"}'
lock 'no terms' LostIsLost '{1, 2}' 0 '{"terms"}'

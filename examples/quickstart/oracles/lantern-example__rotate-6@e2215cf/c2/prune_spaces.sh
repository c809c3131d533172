#!/bin/sh
# A name with spaces is one file for bin/prune. Run in the repository's root; prints TAP.
prune="$PWD/bin/prune"
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
failed=0
number=0

check() { # check NAME COMMAND...: one test point
    name=$1
    number=$((number + 1))
    shift
    if "$@"; then
        echo "ok $number - $name"
    else
        echo "not ok $number - $name"
        failed=1
    fi
}

echo "1..3"
touch "my log.1" log.1 other.2
sh "$prune" "my log" other 2>/dev/null
check "the copy of a name with spaces is removed" test ! -e "my log.1"
check "the copy of a second file is removed" test ! -e other.2
check "a file that was not named is left alone" test -f log.1
exit "$failed"

#!/bin/sh
# A name with spaces is one file for bin/rotate. Run in the repository's root; prints TAP.
rotate="$PWD/bin/rotate"
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
echo one >plain
echo two >"with two spaces"
sh "$rotate" plain "with two spaces" 2>/dev/null
check "a plain name is rotated" test -f plain.1
check "a name with spaces is rotated" test -f "with two spaces.1"
check "the old name is gone" test ! -e "with two spaces"
exit "$failed"

#!/bin/sh
# A file that is not there is reported, and does not keep the others from being rotated. Run in the repository's root;
# prints TAP.
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

echo "1..4"
echo one >first
echo two >last
sh "$rotate" first absent last 2>messages
status=$?
check "the exit status is 1" test "$status" -eq 1
check "the message names the file" grep -q absent messages
check "the file before it is rotated" test -f first.1
check "the file after it is rotated" test -f last.1
exit "$failed"

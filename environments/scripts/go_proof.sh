# Whether a Go environment works: `sh -c … sh CHECK GO`, the last line is one JSON object.
check=$1 go=$2

first_error() {
  grep -m 1 -E '^(go: |[^ ]+\.go:[0-9]+)|failed\]' "$log" || tail -n 1 "$log"
}

names() {
  "$go" test -list '^Test' ./... 2>> "$log" | grep -E '^Test' | LC_ALL=C sort -u
}

case $check in
install)
  "$go" list -deps -test ./... > /dev/null 2> "$log" || { cat "$log"; answer false "$(first_error)"; }
  answer true "all modules are there" ;;
import)
  "$go" build ./... > "$log" 2>&1 || { tail -n 60 "$log"; answer false "$(first_error)"; }
  "$go" test -count=1 -run '^$' ./... > "$log" 2>&1 || { tail -n 60 "$log"; answer false "$(first_error)"; }
  answer true "the packages and their tests compile" ;;
collect)
  : > "$log"
  count=$(names | grep -c .)
  [ "$count" -gt 0 ] && answer true "$count tests" ", \"collected\": $count"
  grep -q -E '\.go:[0-9]+|^go: |failed\]' "$log" && { tail -n 60 "$log"; answer false "$(first_error)"; }
  answer true "the project has no tests of its own" ', "collected": 0' ;;
sample)
  : > "$log"
  all=$(names)
  [ -n "$all" ] || answer true "the project has no tests of its own" ', "passed": [], "failed": []'
  # Evenly over the whole list, always the same ones.
  chosen=$(printf '%s\n' "$all" | awk '{ line[NR] = $0 } END { most = 40; n = NR < most ? NR : most; for (i = 0; i < n; i++) printf "%s%s", (i ? "|" : ""), line[int(i * NR / n) + 1] }')
  timeout -s KILL 180 "$go" test -count=1 -v -run "^($chosen)\$" ./... > "$log" 2>&1
  tail -n 60 "$log"
  passed=$(sed -n 's/^--- PASS: \([^ ]*\) .*/\1/p' "$log" | LC_ALL=C sort -u)
  failed=$(sed -n 's/^--- FAIL: \([^ ]*\) .*/\1/p' "$log" | LC_ALL=C sort -u)
  good=$(printf '%s' "$passed" | grep -c .) bad=$(printf '%s' "$failed" | grep -c .)
  more=", \"passed\": $(printf '%s' "$passed" | list), \"failed\": $(printf '%s' "$failed" | list)"
  ok=false
  [ "$good" -gt 0 ] && [ "$good" -ge "$bad" ] && ok=true
  answer $ok "$good of $((good + bad)) sampled tests pass" "$more" ;;
esac

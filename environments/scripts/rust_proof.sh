# Whether a Rust environment works: `sh -c … sh CHECK CARGO`, the last line is one JSON object.
check=$1 cargo=$2

first_error() {
  grep -m 1 -E '^(error|warning: unused manifest)' "$log" || tail -n 1 "$log"
}

# Names of tests and benchmarks of the root package (or the default members), sorted.
names() {
  "$cargo" test --offline --tests -- --list --format terse 2>> "$log" | sed -n 's/: test$//p' | LC_ALL=C sort -u
}

case $check in
install)
  "$cargo" metadata --offline --format-version 1 > /dev/null 2> "$log" || { cat "$log"; answer false "$(first_error)"; }
  answer true "all dependencies of the lock are there" ;;
import)
  "$cargo" test --no-run --offline > "$log" 2>&1 || { tail -n 60 "$log"; answer false "$(first_error)"; }
  answer true "the project and its tests compile" ;;
collect)
  : > "$log"
  count=$(names | grep -c .)
  grep -q -E '^error' "$log" && { tail -n 60 "$log"; answer false "$(first_error)"; }
  [ "$count" -gt 0 ] || answer true "the project has no tests of its own" ', "collected": 0'
  answer true "$count tests" ", \"collected\": $count" ;;
sample)
  : > "$log"
  all=$(names)
  [ -n "$all" ] || answer true "the project has no tests of its own" ', "passed": [], "failed": []'
  # Evenly over the whole list, always the same ones.
  chosen=$(printf '%s\n' "$all" | awk '{ line[NR] = $0 } END { most = 40; n = NR < most ? NR : most; for (i = 0; i < n; i++) print line[int(i * NR / n) + 1] }')
  old=$IFS; IFS='
'
  # shellcheck disable=SC2086 # one argument a line
  timeout -s KILL 180 "$cargo" test --offline --no-fail-fast --tests -- --exact --test-threads=1 $chosen > "$log" 2>&1
  IFS=$old
  tail -n 60 "$log"
  passed=$(sed -n 's/^test \(.*\) \.\.\. ok$/\1/p' "$log" | sed 's/ - should panic$//' | LC_ALL=C sort -u)
  failed=$(sed -n 's/^test \(.*\) \.\.\. FAILED$/\1/p' "$log" | sed 's/ - should panic$//' | LC_ALL=C sort -u)
  good=$(printf '%s' "$passed" | grep -c .) bad=$(printf '%s' "$failed" | grep -c .)
  more=", \"passed\": $(printf '%s' "$passed" | list), \"failed\": $(printf '%s' "$failed" | list)"
  ok=false
  [ "$good" -gt 0 ] && [ "$good" -ge "$bad" ] && ok=true
  answer $ok "$good of $((good + bad)) sampled tests pass" "$more" ;;
esac

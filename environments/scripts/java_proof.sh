# Whether a Java environment works: `sh -c … sh CHECK SYSTEM JAVAC TOOL REPOSITORY`, the last line is one JSON object.
check=$1 system=$2 javac=$3 tool=$4 repository=$5
export HOME=/tmp

first_error() {
  grep -m 1 -E '\[ERROR\]|error:|FAILURE' "$log" || tail -n 1 "$log"
}

# Classes of tests, by the names that surefire looks for.
tests() {
  find . -name '.?*' -prune -o -path '*/test/*' \( -name 'Test*.java' -o -name '*Test.java' -o -name '*Tests.java' -o -name '*TestCase.java' \) -print |
    sed 's|.*/||; s|\.java$||' | LC_ALL=C sort -u
}

case $check in
install)
  mkdir -p "$log.d" && printf 'class Works { }\n' > "$log.d/Works.java"
  "$javac" -d "$log.d" "$log.d/Works.java" > "$log" 2>&1 || { cat "$log"; answer false "$(first_error)"; }
  [ "$tool" = none ] || [ -x "$tool" ] || answer false "$system is not there"
  answer true "the compiler works" ;;
import)
  count=$(find target/classes build/classes -name '*.class' 2> /dev/null | grep -c .)
  sources=$(find . -name '.?*' -prune -o -name '*.java' ! -path '*/test/*' -print | grep -c .)
  [ "$count" -gt 0 ] || [ "$sources" -eq 0 ] || answer false "the build left no classes"
  answer true "$count classes" ;;
collect)
  count=$(tests | grep -c .)
  [ "$count" -gt 0 ] || answer true "the project has no tests of its own" ', "collected": 0'
  [ "$system" = javac ] || {
    compiled=$(find target/test-classes build/classes/java/test -name '*.class' 2> /dev/null | grep -c .)
    [ "$compiled" -gt 0 ] || answer false "no test is compiled"
  }
  answer true "$count classes of tests" ", \"collected\": $count" ;;
sample)
  chosen=$(tests | awk '{ line[NR] = $0 } END { most = 10; n = NR < most ? NR : most; for (i = 0; i < n; i++) printf "%s%s", (i ? "," : ""), line[int(i * NR / n) + 1] }')
  [ -n "$chosen" ] || answer true "the project has no tests of its own" ', "passed": [], "failed": []'
  case $system in
  maven)
    timeout -s KILL 240 "$tool" -B -o "-Dmaven.repo.local=$repository/repository" "-Dtest=$chosen" -DfailIfNoTests=false -Dsurefire.failIfNoSpecifiedTests=false test > "$log" 2>&1 ;;
  gradle)
    # shellcheck disable=SC2046 # one argument a class
    timeout -s KILL 240 "$tool" --offline --no-daemon --console=plain test $(printf '%s' "$chosen" | sed 's/[^,]*/--tests *&/g; s/,/ /g') > "$log" 2>&1 ;;
  *) answer true "tests need a framework, which javac alone does not bring" ', "passed": [], "failed": []' ;;
  esac
  tail -n 60 "$log"
  # Reports of surefire and gradle: a file a class.
  reports=$(find . -name 'TEST-*.xml' \( -path '*/surefire-reports/*' -o -path '*/test-results/*' \))
  passed= failed=
  for report in $reports; do
    name=$(sed -n 's/.*<testsuite[^>]* name="\([^"]*\)".*/\1/p' "$report" | head -n 1)
    if grep -q -E '<(failure|error)[ >]' "$report"; then failed="$failed$name
"; else passed="$passed$name
"; fi
  done
  passed=$(printf '%s' "$passed" | LC_ALL=C sort -u) failed=$(printf '%s' "$failed" | LC_ALL=C sort -u)
  good=$(printf '%s' "$passed" | grep -c .) bad=$(printf '%s' "$failed" | grep -c .)
  more=", \"passed\": $(printf '%s' "$passed" | list), \"failed\": $(printf '%s' "$failed" | list)"
  ok=false
  [ "$good" -gt 0 ] && [ "$good" -ge "$bad" ] && ok=true
  [ $((good + bad)) -gt 0 ] || answer false "no test ran: $(first_error)" "$more"
  answer $ok "$good of $((good + bad)) sampled classes of tests pass" "$more" ;;
esac

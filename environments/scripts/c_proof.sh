# Whether a C or C++ environment works: `sh -c … sh CHECK CC`, the last line is one JSON object.
check=$1 cc=$2

first_error() {
  grep -m 1 -E 'error:|Error [0-9]|not found|FAILED' "$log" || tail -n 1 "$log"
}

# What the project is built with, as its build left it.
if [ -f _build/CMakeCache.txt ]; then system=cmake
elif [ -f _build/build.ninja ] && [ -d _build/meson-info ]; then system=meson
elif [ -f Makefile ] || [ -f makefile ] || [ -f GNUmakefile ]; then system=make
else system=none
fi

# The goal that runs the tests, if the makefile has one.
goal() {
  for name in check test tests; do
    # A file or folder of that name would be a goal that has nothing to do.
    make -n "$name" > "$log" 2>&1 && ! grep -q -E "up to date|Nothing to be done" "$log" && { echo "$name"; return; }
  done
}

sources() {
  find . -name '.?*' -prune -o \( -name '*.c' -o -name '*.cc' -o -name '*.cpp' -o -name '*.cxx' \) -print | LC_ALL=C sort
}

case $check in
install)
  printf 'int main(void) { return 0; }\n' > "$log.c"
  "$cc" -o "$log.out" "$log.c" > "$log" 2>&1 && "$log.out" || { cat "$log"; answer false "the compiler makes no program that runs: $(first_error)"; }
  case $system in none) ;; meson) tool=meson ;; *) tool=$system ;; esac
  [ -z "$tool" ] || command -v "$tool" > /dev/null || answer false "$tool: not found"
  answer true "the compiler works; built with $system" ;;
import)
  case $system in
  cmake) cmake --build _build > "$log" 2>&1 ;;
  meson) meson compile -C _build > "$log" 2>&1 ;;
  make) make > "$log" 2>&1 ;;
  none) first=$(sources | head -n 1); [ -z "$first" ] || "$cc" -fsyntax-only "$first" > "$log" 2>&1 ;;
  esac || { tail -n 60 "$log"; answer false "$(first_error)"; }
  answer true "the project is built with $system" ;;
collect)
  case $system in
  cmake) count=$(cd _build && ctest -N 2> "$log" | sed -n 's/^Total Tests: //p') ;;
  meson) count=$(meson test -C _build --list 2> "$log" | grep -c .) ;;
  make) [ -n "$(goal)" ] && count=1 ;;
  esac
  [ "${count:-0}" -gt 0 ] || answer true "the project has no tests that its build knows" ', "collected": 0'
  answer true "$count tests known to $system" ", \"collected\": $count" ;;
sample)
  case $system in
  cmake)
    total=$(cd _build && ctest -N 2> /dev/null | sed -n 's/^Total Tests: //p')
    [ "${total:-0}" -gt 0 ] || answer true "the project has no tests that its build knows" ', "passed": [], "failed": []'
    # Evenly over the whole list, always the same ones.
    step=$(((total + 39) / 40))
    (cd _build && timeout -s KILL 180 ctest -I "1,$total,$step" --timeout 30) > "$log" 2>&1
    passed=$(sed -n 's|^ *[0-9]*/[0-9]* Test *#[0-9]*: \([^ ]*\) .* Passed .*|\1|p' "$log" | LC_ALL=C sort -u)
    failed=$(sed -n 's|^ *[0-9]*/[0-9]* Test *#[0-9]*: \([^ ]*\) .*\*\*\*.*|\1|p' "$log" | LC_ALL=C sort -u) ;;
  meson)
    timeout -s KILL 180 meson test -C _build --no-rebuild -t 1 > "$log" 2>&1
    passed=$(sed -n 's|^ *[0-9]*/[0-9]* \(.*[^ ]\)  *OK  *[0-9].*|\1|p' "$log" | LC_ALL=C sort -u)
    failed=$(sed -n 's|^ *[0-9]*/[0-9]* \(.*[^ ]\)  *\(FAIL\|TIMEOUT\|ERROR\)  *[0-9].*|\1|p' "$log" | LC_ALL=C sort -u) ;;
  make)
    name=$(goal)
    [ -n "$name" ] || answer true "the project has no tests that its build knows" ', "passed": [], "failed": []'
    if timeout -s KILL 180 make "$name" > "$log" 2>&1; then passed="make $name"; else failed="make $name"; fi ;;
  none) answer true "the project has no tests that its build knows" ', "passed": [], "failed": []' ;;
  esac
  tail -n 60 "$log"
  good=$(printf '%s' "$passed" | grep -c .) bad=$(printf '%s' "$failed" | grep -c .)
  more=", \"passed\": $(printf '%s' "$passed" | list), \"failed\": $(printf '%s' "$failed" | list)"
  ok=false
  [ "$good" -gt 0 ] && [ "$good" -ge "$bad" ] && ok=true
  answer $ok "$good of $((good + bad)) sampled tests pass" "$more" ;;
esac

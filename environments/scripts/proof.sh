# What the checks of compiled languages share; the check itself follows. Its last line is one JSON object.
log=${TMPDIR:-/tmp}/redgreen-proof

answer() {
  detail=$(printf '%s' "$2" | tr '\n\t"\\' "  ' " | tr -d '\000-\037' | cut -c 1-300)
  printf '\n{"ok": %s, "detail": "%s"%s}\n' "$1" "$detail" "$3"
  exit 0
}

# Lines as a JSON list of texts.
list() {
  awk 'BEGIN { printf "[" } { gsub(/["\\]/, "_"); printf "%s\"%s\"", (NR > 1 ? ", " : ""), $0 } END { printf "]" }'
}


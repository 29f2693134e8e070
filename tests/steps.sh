# Steps of scripts that play users, to be sourced. A step prints `ok`, `FAILED` with what happened, or `skipped: ` with what
# is missing; `steps_end` ends the script with 1 if one failed.
failed=0
exec </dev/null

# step NAME CODE PATTERN COMMAND...: the command ends with this exit code, and what it prints matches the pattern (grep -E).
step() {
    local name=$1 code=$2 pattern=$3 out got
    shift 3
    out=$("$@" 2>&1)
    got=$?
    if [ "$got" = "$code" ] && grep -qE -- "$pattern" <<<"$out"; then
        echo "ok       $name"
    else
        echo "FAILED   $name: exit code $got instead of $code, or no /$pattern/ in:"
        sed 's/^/         | /' <<<"$out" | tail -20
        failed=$((failed + 1))
    fi
}
have() { command -v "$1" >/dev/null 2>&1; }
skip() { echo "skipped: $*"; }
steps_end() { [ "$failed" = 0 ] || { echo "$failed steps failed"; exit 1; }; }

# The typecheck: the value is a number. What it prints is the candidate's.
grep -q "^the value is [0-9][0-9]*$" value.txt || { echo "value.txt:1: not a number"; exit 1; }
cat gate.txt 2>/dev/null || true

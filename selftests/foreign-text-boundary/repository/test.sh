# The tests: the value is at least 2. What is printed is the candidate's.
cat gate.txt 2>/dev/null || true
grep -q "^the value is [2-9]$" value.txt || { echo "the value is too small"; exit 1; }

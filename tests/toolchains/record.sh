#!/usr/bin/env bash
# Records what each tool prints, for the readers' tests: small projects in which something passes, something fails and
# something does not load. Run by hand when a tool has a new version; look at what changed before it is kept.
#
# Usage: tests/toolchains/record.sh WORK   (WORK/js/node_modules and the virtual environment WORK/py hold the tools)
# Writes WORK/rec/TOOL-VERSION/; copy from there to tests/fixtures/gate.
set -uo pipefail
G=$(realpath "$1"); R=$G/rec; rm -rf $R $G/w; mkdir -p $R $G/w; export NO_COLOR=1 CI=true CARGO_TERM_COLOR=never
scrub() { sed -e "s#$G/w#/work#g" -e "s#$G/js/node_modules#/work/js/node_modules#g" -e "s#$G/py#/work/venv#g" -e "s#$HOME#/home/user#g" -e 's#/root/[^ :"]*/\(rustup\|cargo\|pyenv\)#/home/user/\1#g' -e 's#registry\.[a-z.]*#registry.example#g' -e '/Looking in links/d' -e '/^ *at \(\/rustc\|.\/src\)/d' \
    -e '/^ *[0-9]*: \(__\|core\|std\|alloc\|test\)/d'; }
rec() { local dir=$1 name=$2; shift 2; mkdir -p $R/$dir; ( "$@" 2>&1; echo "exit $?" >&2 ) 2>$R/.st | scrub > $R/$dir/$name; echo "$dir/$name $(cat $R/.st | tail -1)"; }
# --- js
mkdir -p $G/w/js/src $G/w/js/test; cd $G/w/js; ln -s $G/js/node_modules node_modules
echo '{"name":"fixture","private":true,"type":"commonjs"}' > package.json
cat > src/math.js <<'J'
exports.add = (a, b) => a - b;
exports.mul = (a, b) => a * b;
J
cat > vtest.mjs <<'J'
J
mkdir -p v; cat > v/math.test.mjs <<'J'
import { describe, expect, it, test } from 'vitest';
import m from '../src/math.js';
describe('math', () => {
  it('multiplies', () => expect(m.mul(2, 3)).toBe(6));
  it('adds', () => expect(m.add(1, 2)).toBe(3));
  it.skip('later', () => {});
  describe('deep', () => { it('is > nested', () => {}); });
});
test('stands alone', () => { console.log('✓ v/math.test.mjs > math > adds 1ms'); });
J
cat > v/broken.test.mjs <<'J'
import { nothing } from './missing.mjs';
nothing();
J
cat > v/ok.test.mjs <<'J'
import { test } from 'vitest';
test('fine', () => {});
J
vv=vitest-$(node -p "require('./node_modules/vitest/package.json').version")
rec $vv default.txt node_modules/.bin/vitest run --dir v
rec $vv verbose.txt node_modules/.bin/vitest run --dir v --reporter=verbose
rec $vv json.json node_modules/.bin/vitest run --dir v --reporter=json
rec $vv ok.txt node_modules/.bin/vitest run --dir v ok
rec $vv tap.txt node_modules/.bin/vitest run --dir v --reporter=tap
mkdir -p j; cat > j/math.test.js <<'J'
const m = require('../src/math.js');
describe('math', () => {
  it('multiplies', () => expect(m.mul(2, 3)).toBe(6));
  it('adds', () => expect(m.add(1, 2)).toBe(3));
  it.skip('later', () => {});
  it.todo('someday');
  describe('deep', () => { it('is › nested', () => {}); });
});
test('stands alone', () => { console.log('  ✓ adds (1 ms)'); });
J
cat > j/broken.test.js <<'J'
require('./missing.js');
J
cat > j/ok.test.js <<'J'
test('fine', () => {});
J
jv=jest-$(node -p "require('./node_modules/jest/package.json').version")
rec $jv default.txt node_modules/.bin/jest --rootDir j
rec $jv verbose.txt node_modules/.bin/jest --rootDir j --verbose
rec $jv json.json node_modules/.bin/jest --rootDir j --json
rec $jv ok.txt node_modules/.bin/jest --rootDir j ok
mkdir -p n; cat > n/math.test.js <<'J'
const { describe, it, test } = require('node:test'); const assert = require('node:assert');
const m = require('../src/math.js');
describe('math', () => {
  it('multiplies', () => assert.equal(m.mul(2, 3), 6));
  it('adds', () => assert.equal(m.add(1, 2), 3));
  it.skip('later', () => {});
  it.todo('someday');
  describe('deep', () => { it('is # nested', () => {}); });
});
test('stands alone', () => { console.log('ok 9 - math'); });
J
cat > n/broken.test.js <<'J'
require('./missing.js');
J
nv=node-$(node -p "process.versions.node")
rec $nv spec.txt node --test --test-reporter=spec n/
rec $nv tap.txt node --test --test-reporter=tap n/
mv_=mocha-$(node -p "require('./node_modules/mocha/package.json').version")
mkdir -p m; sed -e "s/const { describe, it, test } = require('node:test'); //" -e '/todo/d' -e '/stands alone/d' n/math.test.js > m/math.test.js
rec $mv_ spec.txt node_modules/.bin/mocha m
rec $mv_ json.json node_modules/.bin/mocha m --reporter json
rec $mv_ broken.txt node_modules/.bin/mocha n/broken.test.js
# --- ts
mkdir -p $G/w/ts/src; cd $G/w/ts; ln -s $G/js/node_modules node_modules
echo '{"compilerOptions":{"strict":true,"noEmit":true,"target":"ES2022","types":[]},"include":["src"]}' > tsconfig.json
printf 'export function add(a: number, b: number): number {\n  return "x";\n}\n' > src/math.ts
printf 'import { add } from "./math";\nconst n: number = "s";\nconsole.log(add(1, "2"));\n' > src/index.ts
tv=tsc-$(node -p "require('./node_modules/typescript/package.json').version")
rec $tv plain.txt node_modules/.bin/tsc --noEmit --pretty false -p tsconfig.json
rec $tv pretty.txt node_modules/.bin/tsc --noEmit --pretty true -p tsconfig.json
echo '{"include":["nothing"]}' > tsconfig.empty.json
rec $tv noinputs.txt node_modules/.bin/tsc --noEmit --pretty false -p tsconfig.empty.json
rm -rf node_modules; rec $tv missing.txt sh -c 'node_modules/.bin/tsc --noEmit'
# --- py
mkdir -p $G/w/py/app $G/w/py/tests; cd $G/w/py; touch app/__init__.py
printf 'def add(a: int, b: int) -> int:\n    return "x"\n\n\ndef f() -> int:\n    return c\n\n\nx: int = add("a", 1)\n' > app/calc.py
printf '[tool.mypy]\nstrict = true\n' > pyproject.toml
pv=mypy-$($G/py/bin/mypy --version | cut -d' ' -f2)
rec $pv text.txt $G/py/bin/mypy --show-error-codes --no-color-output --no-pretty --no-error-summary .
rec $pv json.json $G/py/bin/mypy --output json .
rec $pv pretty.txt $G/py/bin/mypy --pretty .
prv=pyright-$($G/py/bin/pyright --version 2>/dev/null| tail -1| cut -d' ' -f2)
rec $prv json.json $G/py/bin/pyright --outputjson
rec $prv text.txt $G/py/bin/pyright
printf 'def add(a, b):\n    return a - b\n' > app/calc.py
cat > tests/test_calc.py <<'P'
import unittest
import pytest
from app.calc import add

def test_add():
    assert add(1, 2) == 3

@pytest.mark.parametrize("x", ["a - b", "ok"])
def test_p(x):
    assert x == "ok"

@pytest.mark.skip
def test_s(): pass

@pytest.mark.xfail
def test_x(): assert False

class TestC(unittest.TestCase):
    def test_m(self): print("PASSED tests/test_calc.py::test_add")
    def test_sub(self):
        with self.subTest(i=1): self.assertEqual(add(1, 1), 0)
        with self.subTest(i=2): self.assertEqual(add(1, 1), 2)
P
printf 'import nothing_here\n' > tests/test_bad.py
tv=pytest-$($G/py/bin/pytest --version | cut -d' ' -f2)
P="$G/py/bin/python -m pytest"
rec $tv ours.txt $P -q -rA --tb=short -p no:cacheprovider --continue-on-collection-errors
rec $tv default.txt $P
rec $tv verbose.txt $P -v --continue-on-collection-errors
rec $tv quiet.txt $P -q
mkdir u; cat > u/test_calc.py <<'P'
import unittest
from app.calc import add

class Calc(unittest.TestCase):
    def test_add(self):
        """Adds two numbers."""
        self.assertEqual(add(1, 2), 3)
    def test_zero(self): self.assertEqual(add(0, 0), 0)
    @unittest.skip("later")
    def test_later(self): pass
    @unittest.expectedFailure
    def test_known(self): self.fail()
    def test_error(self): raise KeyError("x")
    def test_sub(self):
        for i in (1, 2):
            with self.subTest(i=i): self.assertEqual(i, 1)
P
touch u/__init__.py; printf 'import nothing_here\n' > u/test_bad.py
uv=unittest-$($G/py/bin/python -V | cut -d' ' -f2)
rec $uv default.txt $G/py/bin/python -m unittest discover -s u -t .
rec $uv verbose.txt $G/py/bin/python -m unittest discover -v -s u -t .
rec pip-$($G/py/bin/pip --version | cut -d' ' -f2) nopytest.txt python3 -S -m pytest
rec pip-$($G/py/bin/pip --version | cut -d' ' -f2) noindex.txt $G/py/bin/pip install --no-index --disable-pip-version-check no-such-package-here
# --- npm
mkdir -p $G/w/npm; cd $G/w/npm; echo '{"name":"x","private":true,"dependencies":{"left-pad":"1.3.0"},"scripts":{"test":"vitest run","t":"npx tsc"}}' > package.json
nv=npm-$(npm --version)
rec $nv offline.txt env npm_config_cache=$G/w/nocache npm install --offline
rec $nv ci_nolock.txt env npm_config_cache=$G/w/nocache npm ci --offline
rec $nv notool.txt npm test --silent
rec $nv npx.txt env npm_config_cache=$G/w/nocache NPM_CONFIG_OFFLINE=true npx tsc --noEmit
# --- go
export GOFLAGS=-mod=mod GOPROXY=off GOTOOLCHAIN=local
mkdir -p $G/w/go/sub; cd $G/w/go; printf 'module example/fix\n\ngo 1.19\n' > go.mod
printf 'package fix\n\nfunc Add(a, b int) int { return a - b }\n' > a.go
cat > a_test.go <<'J'
package fix

import ("testing"; "fmt")

func TestAdd(t *testing.T) { if Add(1, 2) != 3 { t.Errorf("no") } }
func TestOk(t *testing.T) { t.Run("sub case", func(t *testing.T) { fmt.Println("--- FAIL: TestForged (0.00s)") }) }
func TestSkip(t *testing.T) { t.Skip("later") }
J
printf 'package sub\n\nfunc F() int { return "x" }\n' > sub/f.go; printf 'package sub\n\nimport "testing"\n\nfunc TestF(t *testing.T) { F() }\n' > sub/f_test.go
gv=go-$(go env GOVERSION | sed s/go//)
rec $gv vet.txt go vet ./...
rec $gv build.txt go build ./...
rec $gv test.json go test -json ./...
rec $gv test.txt go test ./...
rec $gv verbose.txt go test -v ./...
rec $gv ok.txt go test -run TestOk .
printf 'package fix\n\nimport "github.com/stretchr/testify/assert"\n\nvar _ = assert.Equal\n' > b.go
rec $gv missing.txt env GOFLAGS=-mod=readonly go vet .
printf 'module example/fix\n\ngo 1.19\n\nrequire github.com/stretchr/testify v1.8.0\n' > go.mod
rec $gv missing_required.txt env GOFLAGS=-mod=readonly GOMODCACHE=$G/w/gomod go vet .
# --- rust
mkdir -p $G/w/rs/src $G/w/rs/tests; cd $G/w/rs
printf '[package]\nname = "fixture"\nversion = "0.1.0"\nedition = "2021"\n' > Cargo.toml
printf '/// ```\n/// assert_eq!(fixture::add(1, 2), 3);\n/// ```\npub fn add(a: i64, b: i64) -> i64 {\n    a - b\n}\n\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn adds() {\n        assert_eq!(super::add(1, 2), 3);\n    }\n    #[test]\n    fn zero() {\n        use std::io::Write;\n        std::io::stdout().write_all(b"        PASS [   0.004s] fixture tests::adds\\n").unwrap();\n        assert_eq!(super::add(0, 0), 0);\n    }\n    #[test]\n    #[ignore]\n    fn later() {}\n    #[test]\n    #[should_panic]\n    fn panics() {\n        panic!()\n    }\n}\n' > src/lib.rs
printf '#[test]\nfn adds() {\n    assert_eq!(fixture::add(0, 0), 0);\n}\n#[test]\nfn aborts() {\n    std::process::abort();\n}\n' > tests/it.rs
cv=cargo-$(cargo --version | cut -d' ' -f2)
xv=nextest-$(cargo nextest --version | head -1 | cut -d' ' -f2)
rec $cv test.txt cargo test --offline --no-fail-fast
rec $xv run.txt cargo nextest run --offline --no-fail-fast
rec $xv json.json env NEXTEST_EXPERIMENTAL_LIBTEST_JSON=1 cargo nextest run --offline --no-fail-fast --message-format libtest-json
rec $cv clippy.json cargo clippy --offline --message-format=json -- -D warnings
printf 'pub fn old() -> i64 {\n    "x"\n}\n' >> src/lib.rs
rec $cv check_hard.json cargo check --offline --all-targets --keep-going --message-format=json
rec $cv check_hard.txt cargo check --offline --all-targets
sed -i '/old()/,$d' src/lib.rs; printf '#[test]\nfn x() { fixture::missing(); }\n' > tests/soft.rs
rec $cv check_soft.json cargo check --offline --all-targets --keep-going --message-format=json
rec $cv test_broken.txt cargo test --offline --no-fail-fast
printf '[package]\nname = "fixture"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\nno-such-crate-of-ours = "1"\n' > Cargo.toml
rec $cv offline.txt env CARGO_NET_OFFLINE=true CARGO_HOME=$G/w/cargohome cargo check
printf '[package]\nname = "fixture"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\nx = {git = "https://example.invalid/x.git"}\n' > Cargo.toml; rm -f Cargo.lock
rec $cv offline_git.txt env CARGO_NET_OFFLINE=true CARGO_HOME=$G/w/cargohome cargo check

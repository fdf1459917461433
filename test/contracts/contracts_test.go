package contracts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const rows = `title: A product
text: Served by something.
clients:
- name: sdk@2.0.0
- name: sdk@1.0.0
  full: true
- name: HTTP
sections:
- title: Calls
  rows:
  - operation: "` + "`make`" + ` of one"
    call: POST /one
  - operation: "` + "`watch`" + `"
    how: |
      It begins
      at once.
`

// tree writes files into a directory of contracts, from their names and texts.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "test", "contracts")
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// right returns the files of a contract without faults.
func right() map[string]string {
	return map[string]string{
		"all_test.go":                 "package all\n\nfunc TestWalk(t *testing.T) {}\nfunc TestA(t *testing.T) {}\nfunc TestB(t *testing.T) {}\n",
		"rows/intro.txt":              "# Contracts\n",
		"rows/product.yaml":           rows,
		"seen/product/sdk@2.0.0.yaml": "TestWalk:\n  make of one: works\n  watch: differs\n",
		"seen/product/sdk@1.0.0.yaml": "TestWalk:\n  make of one: works\n  watch: absent\n",
		"seen/product/HTTP.yaml":      "TestA:\n  watch: not served\nTestB:\n  watch: not served\n",
	}
}

func TestPageSaysWhatEachClientSaw(t *testing.T) {
	text, err := page(tree(t, right()))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"# Contracts\n\n## A product\n\nServed by something.\n",
		"Tested by `make test`: `sdk@2.0.0`, HTTP. By `make test-all`, too: `sdk@1.0.0`.\n\n### Calls\n",
		"| operation | call | 2.0.0 | 1.0.0 | HTTP | how |\n",
		"| `make` of one | POST /one | works | works |  |  |\n",
		"| `watch` |  | differs | – | not served | It begins at once. |\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q:\n%s", want, text)
		}
	}
}

func TestWrongRowHasNoPage(t *testing.T) {
	for name, c := range map[string]struct{ file, old, new, want string }{
		"seen by nobody":      {"rows/product.yaml", "`watch`", "`listen`", `no test shows "listen"`},
		"a sight without row": {"seen/product/HTTP.yaml", "watch", "listen", `TestA saw "listen" by HTTP, which has no row`},
		"only absent":         {"seen/product/sdk@2.0.0.yaml", "make of one: works", "make of one: absent", ""},
		"a test that is gone": {"all_test.go", "TestWalk", "TestStroll", "there is no test TestWalk"},
		"without how":         {"rows/product.yaml", "    how: |\n      It begins\n      at once.\n", "", `the row of "watch" does not say how`},
		"tests that disagree": {"seen/product/HTTP.yaml", "TestB:\n  watch: not served", "TestB:\n  watch: works", "watch: one test saw"},
		"no such outcome":     {"seen/product/HTTP.yaml", "TestA:\n  watch: not served", "TestA:\n  watch: perhaps", `no outcome "perhaps"`},
		"a client of nobody":  {"rows/product.yaml", "- name: sdk@1.0.0\n  full: true\n", "", "sdk@1.0.0.yaml is of no client"},
		"a field of nobody":   {"rows/product.yaml", "    call:", "    calls:", `unknown field "calls"`},
		"two rows of one":     {"rows/product.yaml", "`watch`", "make of `one`", `two rows are of "make of one"`},
	} {
		t.Run(name, func(t *testing.T) {
			files := right()
			if !strings.Contains(files[c.file], c.old) {
				t.Fatalf("%s lacks %q", c.file, c.old)
			}
			files[c.file] = strings.Replace(files[c.file], c.old, c.new, 1)
			_, err := page(tree(t, files))
			if c.want == "" && err != nil {
				t.Fatal(err)
			}
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("the error is %v, want one of %q", err, c.want)
			}
		})
	}
}

func TestRecorderTellsWhatIsNotAsItIsKept(t *testing.T) {
	kept := map[string]Outcome{"a": Works, "b": Works, "c": Differs}
	seen := map[string]Outcome{"a": Works, "b": NotServed, "d": Works}
	got := strings.Join(differences(kept, seen), "\n")
	want := `b: the test saw "not served", and "works" is kept
c: the test saw "", and "differs" is kept
d: the test saw "works", and "" is kept`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestRecorderReadsTheOutputOfAClient(t *testing.T) {
	t.Chdir(filepath.Dir(filepath.Dir(tree(t, right()))))
	other := Record(t, "product", "sdk@2.0.0")
	other.contract.Name = "other"
	t.Cleanup(func() { other.contract.Name = "product" })
	r := Record(t, "product", "HTTP").Beside(other)
	for _, part := range []string{`{"operation":"wat`, "ch\",\"outcome\":\"not served\"}\nanother line\n{\"other\":1}\n{\"contract\":\"other\",\"operation\":\"make of one\"}\n"} {
		if _, err := r.Write([]byte(part)); err != nil {
			t.Fatal(err)
		}
	}
	if len(r.seen) != 1 || r.seen["watch"] != NotServed {
		t.Errorf("seen: %v", r.seen)
	}
	if len(other.seen) != 1 || other.seen["make of one"] != Works {
		t.Errorf("seen of another contract: %v", other.seen)
	}
	clear(other.seen)
	t.Setenv(Update, "1")
	r.check()
	s, err := readSight(mustFind(t), "product", "HTTP")
	if err != nil || s[t.Name()]["watch"] != NotServed || s["TestA"]["watch"] != NotServed {
		t.Errorf("kept: %v, %v", s, err)
	}
	for want, problem := range map[string]string{
		"has no row for": r.problem(Works, "listen"), "there is no outcome": r.problem("fine", "watch"), "it was": r.problem(Works, "watch"),
	} {
		if !strings.Contains(problem, want) {
			t.Errorf("the problem is %q, want one of %q", problem, want)
		}
	}
}

func mustFind(t *testing.T) string {
	t.Helper()
	dir, err := find()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

package clients_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/podagent/podagent/pkg/launcher/errclass"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

// The clients have a type for each class of errors.
func TestClientsKnowAllClassesOfErrors(t *testing.T) {
	classes := errclass.Names()
	for name := range pb.Class_value {
		if class, _ := strings.CutPrefix(name, "CLASS_"); class != "UNSPECIFIED" {
			classes = append(classes, strings.ToLower(class))
		}
	}
	js := listed(t, "js/src/errors.ts", regexp.MustCompile(`"([a-z_]+)"`))
	python := listed(t, "python/podagent/errors.py", regexp.MustCompile(`class (\w+)Error\(ProblemError\)|kind="([a-z_]+)"`))
	for _, class := range classes {
		if !slices.Contains(js, class) {
			t.Errorf("js/src/errors.ts lacks %s", class)
		}
		camel := strings.ReplaceAll(class, "_", "")
		if !slices.ContainsFunc(python, func(name string) bool { return strings.EqualFold(name, camel) }) {
			t.Errorf("errors.py lacks %s", class)
		}
	}
}

// listed returns what the groups of a pattern find in a file.
func listed(t *testing.T, path string, pattern *regexp.Regexp) (found []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, groups := range pattern.FindAllStringSubmatch(string(text), -1) {
		found = append(found, strings.Join(groups[1:], ""))
	}
	return found
}

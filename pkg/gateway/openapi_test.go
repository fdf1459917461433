package gateway_test

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podagent/podagent/pkg/gateway"
)

func TestDescriptionIsUpToDate(t *testing.T) {
	want, err := gateway.OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("openapi.json is out of date: run make generate (-want +got):\n%s", diff)
	}
}

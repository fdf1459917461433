package egress_test

import (
	"context"
	"fmt"
	"log"

	"github.com/podagent/podagent/pkg/egress"
	"github.com/podagent/podagent/pkg/launcher"
)

func ExampleServe() {
	ctx := context.Background()
	sandbox, err := new(launcher.Local).Launch(ctx, launcher.Spec{ID: "job-17"})
	if err != nil {
		log.Fatal(err)
	}
	defer sandbox.Close()
	allow, err := egress.ParseRule("*.pypi.org")
	if err != nil {
		log.Fatal(err)
	}
	server, err := egress.Serve(ctx, sandbox.Client, egress.Options{
		Policy: egress.Policy{Allow: []egress.Rule{allow}},
		Log:    func(d egress.Decision) { log.Print(d.Verdict, " ", d.Host, " ", d.Reason) },
	})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
}

func ExampleParseRule() {
	rule, err := egress.ParseRule("*.Example.com:443,8443")
	fmt.Println(rule, err)
	fmt.Println(rule.Matches("www.example.com", 8443), rule.Matches("example.com", 443), rule.Matches("www.example.com", 80))
	// Output:
	// *.example.com:443,8443 <nil>
	// true false false
}

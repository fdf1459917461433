package tools_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/tools"
	"github.com/podagent/podagent/pkg/tools/secret"
)

func Example() {
	ctx := context.Background()
	sandbox, err := (&launcher.Local{}).Launch(ctx, launcher.Spec{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sandbox.Close()

	session := tools.New(sandbox, tools.Options{}, tools.Coding()...)
	result, err := session.Call(ctx, "Bash", json.RawMessage(`{"command": "echo hello"}`))
	fmt.Print(result.Text(), err)
	// Output:
	// hello
	// <nil>
}

func ExampleSession_Batch() {
	ctx := context.Background()
	sandbox, err := launcher.Lazy(&launcher.Local{}, launcher.Spec{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sandbox.Close()

	session := tools.New(sandbox, tools.Options{
		Secrets: map[string]secret.Provider{"API_TOKEN": secret.Static("a-very-secret-token")},
	}, tools.Coding()...)
	results, err := session.Batch(ctx, []tools.Call{
		{Name: "Bash", Input: json.RawMessage(`{"command": "echo $API_TOKEN"}`)},
		{Name: "Read", Input: json.RawMessage(`{"path": "README.md"}`)},
	})
	if err != nil {
		fmt.Println(err)
	}
	for _, r := range results {
		fmt.Println(r.IsError, r.Text())
	}
	// Output:
	// false [REDACTED:API_TOKEN]
	//
	// true cannot read "README.md": there is no such file or directory. There is nothing in the working directory.
}

func ExampleFunc() {
	double := tools.Func(tools.Spec{Name: "double", Description: "Doubles a number."},
		func(_ context.Context, _ *tools.Env, in struct {
			Number float64 `json:"number" jsonschema:"what to double"`
		},
		) (tools.Result, error) {
			return tools.Text(fmt.Sprint(2 * in.Number)), nil
		})
	session := tools.New(nil, tools.Options{}, double)
	result, err := session.Call(context.Background(), "double", json.RawMessage(`{"number": 21}`))
	fmt.Println(result.Text(), err)
	// Output: 42 <nil>
}

package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/podagent/podagent/cmd/internal/render"
	"github.com/podagent/podagent/pkg/launcher/pool"
)

func describePoolCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "describe NAME",
		Short: "Show a pool, the pods that wait in it, and why there are no more",
		Args:  takes(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			k, err := a.pods("pool describe")
			if err != nil {
				return err
			}
			d, err := pool.Describe(cmd.Context(), k, args[0])
			if err != nil {
				return poolError(err)
			}
			if a.json() {
				return render.JSON(a.out, describedPool(d))
			}
			return a.describePool(d)
		},
		ValidArgsFunction: a.completePools,
	}
}

func (a *app) describePool(d pool.Description) error {
	about := section{title: "pool"}
	about.add("name", d.Name)
	about.add("size", fmt.Sprint(d.Size))
	about.add("ready", fmt.Sprint(d.Ready))
	about.add("image", d.Image)
	about.add("created", since(d.CreatedAt))
	if d.Problem != "" {
		about.add("problem", oneLine(d.Problem))
	}
	pods := section{title: "pods that wait"}
	for _, w := range d.Waiting {
		pods.add(w.Name, map[bool]string{true: "ready", false: "not ready"}[w.Ready], age(time.Since(w.CreatedAt)), oneLine(w.State))
	}
	for _, s := range []section{about, pods} {
		if err := s.print(a.out); err != nil {
			return err
		}
	}
	return nil
}

// poolDescription is a pool and its pods as JSON.
type poolDescription struct {
	poolJSON
	Problem string        `json:"problem,omitempty"`
	Waiting []waitingJSON `json:"waiting"`
}

type waitingJSON struct {
	Name      string    `json:"name"`
	Node      string    `json:"node,omitempty"`
	Ready     bool      `json:"ready"`
	State     string    `json:"state"`
	CreatedAt time.Time `json:"created_at"`
}

func describedPool(d pool.Description) poolDescription {
	waiting := make([]waitingJSON, len(d.Waiting))
	for i, w := range d.Waiting {
		waiting[i] = waitingJSON(w)
	}
	return poolDescription{poolJSON: poolJSON(d.Pool), Problem: d.Problem, Waiting: waiting}
}

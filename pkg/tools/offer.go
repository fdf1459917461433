package tools

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/podagent/podagent/pkg/fsops"
)

// offer returns a hint for a path from a model that does not exist: similar names
// in its directory, or in the nearest parent directory that exists.
func offer(ctx context.Context, env *Env, name string) string {
	missing := strings.TrimRight(env.Path(name), "/")
	for range maxUp {
		dir, base := path.Split(missing)
		names, err := entries(ctx, env, cmp.Or(dir, "."))
		if err == nil {
			return offerFrom(cmp.Or(dir, "."), base, names)
		}
		if missing = strings.TrimRight(dir, "/"); missing == "" {
			break
		}
	}
	return "Use Glob to see what there is."
}

// entries returns the names of a directory's entries. Names of directories end
// with a slash.
func entries(ctx context.Context, env *Env, dir string) ([]string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var names []string
	for a, err := range env.Sandbox.List(ctx, dir, fsops.ListOptions{}) {
		if err != nil {
			return nil, err
		}
		name := path.Base(a.Path)
		if a.IsDir() {
			name += "/"
		}
		if names = append(names, name); len(names) == maxNames {
			break
		}
	}
	return names, nil
}

// offerFrom says which names in dir are similar to base.
func offerFrom(dir, base string, names []string) string {
	if dir == "." {
		dir = "the working directory"
	}
	if len(names) == 0 {
		return fmt.Sprintf("There is nothing in %s.", dir)
	}
	like := nearest(base, names)
	if len(like) > 0 {
		return fmt.Sprintf("Similar names in %s: %s.", dir, strings.Join(like, ", "))
	}
	some := ""
	if len(names) > maxOffers {
		names, some = names[:maxOffers], " and more"
	}
	return fmt.Sprintf("There is no similar name in %s, which has %s%s.", dir, strings.Join(names, ", "), some)
}

// nearest returns the names most similar to name, the best first.
func nearest(name string, names []string) []string {
	type scored struct {
		name  string
		score int
	}
	var like []scored
	want := strings.ToLower(name)
	for _, n := range names {
		have := strings.ToLower(strings.TrimSuffix(n, "/"))
		score := len(want) + len(have)
		if most := max(2, len(want)/3); len(have) <= len(want)+most && len(want) <= len(have)+most {
			score = distance(want, have)
		}
		if strings.Contains(have, want) || strings.Contains(want, have) || stem(want) == stem(have) {
			score = min(score, 2)
		}
		if score <= max(2, len(want)/3) {
			like = append(like, scored{n, score})
		}
	}
	slices.SortStableFunc(like, func(a, b scored) int { return cmp.Compare(a.score, b.score) })
	var best []string
	for _, s := range like[:min(len(like), maxOffers)] {
		best = append(best, s.name)
	}
	return best
}

func stem(name string) string { return strings.TrimSuffix(name, path.Ext(name)) }

// distance returns the Levenshtein distance, in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}

package launcher

import (
	"context"
	"errors"

	"github.com/podagent/podagent/pkg/podapi"
)

// checkpointsFinding says whether a sandbox keeps checkpoints. A sandbox serves all else without them.
func checkpointsFinding(ctx context.Context, s *Sandbox, nowhere string) Finding {
	ctx, cancel := context.WithTimeout(ctx, doctorCall)
	defer cancel()
	_, err := s.Checkpoints(ctx)
	switch {
	case err == nil:
		return passed("the sandbox keeps them")
	case errors.Is(err, podapi.ErrVersion):
		return warned(err, "Use an image, or a program, of this version.")
	case errors.Is(err, errors.ErrUnsupported):
		return Finding{Verdict: NotChecked, Detail: nowhere}
	}
	return warned(err, "The agent's log says more; docs/checkpoints.md says where checkpoints are.")
}

func (p *clusterPatient) checkCheckpoints(ctx context.Context) Finding {
	return checkpointsFinding(ctx, p.sandbox, "such a pod has none: its workdir is not in a volume of its own")
}

func (p *localPatient) checkCheckpoints(ctx context.Context) Finding {
	return checkpointsFinding(ctx, p.sandbox, "files in memory have none")
}

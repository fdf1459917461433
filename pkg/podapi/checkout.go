package podapi

import (
	"context"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podagent/podagent/internal/delay"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// Checkout is a git repository for [Client.Checkout], and where to put it.
type Checkout struct {
	Dir, URL, Ref      string // the Ref is a branch, tag or commit; "" is the remote's default
	Username, Password string // for https and http; the URL has none in it
}

// CheckoutResult says where HEAD is. Ref is a full name, or empty.
type CheckoutResult struct {
	Commit, Ref string
	Changed     bool   // HEAD was moved
	Kept        string // why all was left as it was, or empty
}

// Checkout puts a git repository into an empty directory, or moves its work tree without
// losing changes. The password stays in the agent. Git's failure is an *[fs.PathError]
// with the Op "checkout", an old agent's [ErrVersion].
func (c *Client) Checkout(ctx context.Context, o Checkout) (CheckoutResult, error) {
	r, err := c.checkout(ctx, &pb.CheckoutRequest{
		Dir: []byte(o.Dir), Url: []byte(o.URL), Ref: []byte(o.Ref),
		Username: []byte(o.Username), Password: []byte(o.Password),
	})
	switch {
	case isUnknownCall(err):
		err = fmt.Errorf("%w: the agent cannot check out: update the agent's image", ErrVersion)
	case err != nil:
		err = wire.FromStatus(err)
	default:
		err = firstError(checkText("the commit", r.Commit), checkPath(r.Ref), checkKept(r.Kept))
	}
	if err != nil {
		return CheckoutResult{}, err
	}
	return CheckoutResult{Commit: r.Commit, Ref: string(r.Ref), Changed: r.Changed, Kept: r.Kept}, nil
}

// checkout repeats a call that was cut: the agent ends what it began, and a later call
// begins again.
func (c *Client) checkout(ctx context.Context, request *pb.CheckoutRequest) (*pb.CheckoutResponse, error) {
	for try := 1; ; try++ {
		r, err := c.git.Checkout(ctx, request)
		if status.Code(err) != codes.Unavailable || wire.Detail(err) != nil || try == checkoutTries || c.closed.Load() {
			return r, err
		}
		delay.For(ctx, resumeDelay(try))
	}
}

// checkKept refuses a reason that is longer than git's messages.
func checkKept(why string) error {
	if len(why) > maxPath {
		return protocolError("a reason of %d bytes", len(why))
	}
	return nil
}

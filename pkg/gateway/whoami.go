package gateway

import (
	"context"
	"net/http"
)

// whoamiPath is where callers ask whose their token is.
const whoamiPath = "/api/v1/whoami"

func (g *Gateway) callerOperations() {
	register(g, http.MethodGet, whoamiPath, "whoami", "Say whose the token is", g.whoami)
	g.api.OpenAPI().Paths[whoamiPath].Get.Tags = []string{callerTag}
}

type whoamiOutput struct {
	Body struct {
		Tenant string `json:"tenant" doc:"whose sandboxes the token is for" example:"acme"`
		Key    string `json:"key,omitempty" doc:"which of the tenant's tokens it is, or the service account; missing if the gateway has only one token" example:"ci"`
		// CanPause is a property of the gateway, told here so that pages offer what there is.
		CanPause bool `json:"can_pause,omitempty" doc:"sandboxes of this gateway can be paused, resumed and extended"`
	}
}

func (g *Gateway) whoami(ctx context.Context, _ *struct{}) (*whoamiOutput, error) {
	caller, out := callerOf(ctx), &whoamiOutput{}
	out.Body.Tenant, out.Body.Key = caller.Tenant, caller.Key
	_, out.Body.CanPause = g.Launcher.(pauser)
	return out, nil
}

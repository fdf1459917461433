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

// SSH says how clients of SSH reach a gateway's sandboxes.
type SSH struct {
	Host     string   `json:"host,omitempty" doc:"missing for the gateway's own" example:"ssh.example.com"`
	Port     int      `json:"port" example:"2222"`
	HostKeys []string `json:"host_keys" nullable:"false" doc:"what clients pin, each as known_hosts has it behind [HOST]:PORT" example:"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMc0ZuWfJDR/2TKw7Tb/sCckUVXo/uWwcscWI9LZMIsD"`
}

type whoamiOutput struct {
	Body struct {
		Tenant string `json:"tenant" doc:"whose sandboxes the token is for" example:"acme"`
		Key    string `json:"key,omitempty" doc:"which of the tenant's tokens it is, or the service account; missing if the gateway has only one token" example:"ci"`
		// CanPause is a property of the gateway, told here so that pages offer what there is.
		CanPause bool `json:"can_pause,omitempty" doc:"sandboxes of this gateway can be paused, resumed and extended"`
		SSH      *SSH `json:"ssh,omitempty" doc:"how clients of SSH reach sandboxes, as the user NAME; missing if the gateway does not serve SSH"`
	}
}

func (g *Gateway) whoami(ctx context.Context, _ *struct{}) (*whoamiOutput, error) {
	caller, out := callerOf(ctx), &whoamiOutput{}
	out.Body.Tenant, out.Body.Key = caller.Tenant, caller.Key
	_, out.Body.CanPause = g.Launcher.(pauser)
	out.Body.SSH = g.SSH
	return out, nil
}

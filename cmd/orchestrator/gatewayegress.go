package main

import (
	"errors"

	"github.com/podagent/podagent/pkg/launcher"
)

// checkEgress says whether sandboxes can be let out as their tenants want it.
func (o *gatewayFlags) checkEgress(a *app) launcher.Finding {
	if o.keys == "" {
		return unchecked("without --keys no sandbox is let out")
	}
	keys, err := o.keyFile(a)
	switch {
	case err != nil:
		return unchecked("the keys have mistakes")
	case !keys.HasEgress():
		return unchecked("no tenant has egress")
	}
	if err := keys.CheckCredentials(); err != nil {
		return fails(err, "Put each value into its file, which the gateways must be able to read: see docs/gateway.md, The way out. Sandboxes do without it meanwhile.")
	}
	if o.linkKeys == "" {
		return warns(errors.New("placeholders and CAs change when another gateway goes on"), "Give all gateways the same --link-key-file.")
	}
	return passes("the rules and the credentials can be used")
}

package gateway_test

import (
	"strings"
	"testing"
)

// Each part of a body takes far more memory than its bytes, once it is decoded.
func TestBodyThatIsTooIntricateIsRefused(t *testing.T) {
	d := newDoor(t)
	many, deep := strings.Repeat("0,", 100_000), strings.Repeat("[", 100)+strings.Repeat("]", 100)
	text := strings.Repeat("[", 100_000)
	d.walk(
		step{"POST", sandboxes, `{"id":"job-1"}`, nil, 201, ``},
		step{"POST", "~/exec", `{"args":["true",` + many + `0]}`, nil, 413, `"detail":"the body must not be nested more than 64 deep, nor have more than 65536 parts","class":"too_large"`},
		step{"POST", "~/grep", `{"pattern":"x","paths":` + deep + `}`, nil, 413, `"class":"too_large"`},
		step{"POST", "~/grep", `{"pattern":"x","fixed":true,"include":[` + strings.Repeat(`{},`, 50_000) + `{}]}`, nil, 413, `"class":"too_large"`},
		step{"POST", sandboxes, `{"id":"job-2","labels":` + deep + `}`, nil, 413, `"class":"too_large"`},
		step{"POST", "~/exec", `{"args":["true","\",` + text + `"]}`, nil, 200, `"code":0`},
		step{"POST", "~/exec", `{"args":["true"` + strings.Repeat(`,"a"`, 10_000) + `]}`, nil, 200, `"code":0`},
	)
}

package gateway_test

import (
	"fmt"
	"strings"
	"testing"
)

func TestListsAreFilteredByLabels(t *testing.T) {
	d := newDoor(t)
	const list = "/api/v1/sandboxes"
	only := func(names ...string) string {
		want := `"sandboxes":\[`
		for i, name := range names {
			if i > 0 {
				want += ","
			}
			want += `\{"id":"` + name + `"[^]]*\}`
		}
		return want + `\]\}`
	}
	d.walk(
		step{"POST", list, `{"id":"a","labels":{"team":"red","example.com/run":"1"}}`, nil, 201, `"id":"a"`},
		step{"POST", list, `{"id":"b","labels":{"team":"red","empty":""}}`, nil, 201, `"id":"b"`},
		step{"POST", list, `{"id":"c"}`, nil, 201, `"id":"c"`},
		step{"GET", list + "/a", "", nil, 200, `"labels":{"example.com/run":"1","team":"red"}`},
		step{"GET", list, "", nil, 200, `"id":"a",[^]]*"labels":{"example.com/run":"1","team":"red"}`},
		step{"GET", list + "?label=team=red", "", nil, 200, only("a", "b")},
		step{"GET", list + "?label=team=red&limit=1", "", nil, 200, `"id":"a"[^]]*\],"next":"a"`},
		step{"GET", list + "?label=team=red&limit=1&after=a", "", nil, 200, only("b")},
		step{"GET", list + "?label=team=red&label=example.com/run=1", "", nil, 200, only("a")},
		step{"GET", list + "?label=team=red,example.com/run=1", "", nil, 200, only("a")},
		step{"GET", list + "?label=team=red,example.com/run=2", "", nil, 200, only()},
		step{"GET", list + "?label=team=red&label=team=blue", "", nil, 200, only()},
		step{"GET", list + "?label=empty=", "", nil, 200, only("b")},
	)
}

func TestLabelsAreThoseThatASandboxWasMadeWith(t *testing.T) {
	d := newDoor(t)
	d.walk(
		step{"POST", "/api/v1/sandboxes", `{"id":"job-1","labels":{"team":"red"}}`, nil, 201, ``},
		step{"POST", "/api/v1/sandboxes", `{"id":"job-1","labels":{"team":"blue"},"env":["A=b"]}`, nil, 200, ``},
		step{"GET", "~", "", nil, 200, `"labels":{"team":"red"}`},
	)
}

func TestWrongLabelsAreRefused(t *testing.T) {
	d := newDoor(t)
	many := make([]string, 65)
	for i := range many {
		many[i] = fmt.Sprintf(`"l%d":""`, i)
	}
	const list = "/api/v1/sandboxes"
	d.walk(
		step{"POST", list, `{"id":"job-1","labels":{"a b":"x"}}`, nil, 422, `Labels has the name`},
		step{"POST", list, `{"id":"job-1","labels":{"a":"x y"}}`, nil, 422, `Labels has a=`},
		step{"POST", list, `{"id":"job-1","labels":{"a":"` + strings.Repeat("x", 64) + `"}}`, nil, 422, `Labels has a=`},
		step{"POST", list, `{"id":"job-1","labels":{"podagent.dev/tenant":"other"}}`, nil, 422, `reserved`},
		step{"POST", list, `{"id":"job-1","labels":{` + strings.Join(many, ",") + `}}`, nil, 422, `64`},
		step{"GET", "~", "", nil, 404, ``},
		step{"GET", list + "?label=team", "", nil, 422, `\\"team\\" is not NAME=VALUE`},
		step{"GET", list + "?label=team=red,", "", nil, 422, `is not NAME=VALUE`},
		step{"GET", list + "?label=a%20b=c", "", nil, 422, `has the name`},
		step{"GET", list + "?label=a=b==c", "", nil, 422, `has a=`},
		step{"GET", list + "?label=" + strings.TrimSuffix(strings.Repeat("a=b,", 65), ","), "", nil, 422, `more than 64`},
	)
}

package gateway_test

import (
	"fmt"
	"os/exec"
	"regexp"
	"testing"
)

// allow writes a file of keys in which this is acme's policy.
func (d *door) allow(policy string) {
	d.Helper()
	d.writeKeys(fmt.Sprintf("tenants:\n  acme:\n    keys:\n    - sha256: %s\n%s\n  other:\n    keys:\n    - sha256: %s\n", hashOf("a"), policy, hashOf("o")))
}

const boundedPolicy = `
    images: ["registry.test/acme/*"]
    pools: [go]
    volumes:
    - {name: code, claim: shared, prefix: "org/{tenant}", depth: 1}
    max: {cpu: 2, memory: 2Gi, storage: 10Gi, lifetime: 1h, idle: 10m}`

func TestWhatIsNotAllowedIsRefusedBeforeAnythingIsMade(t *testing.T) {
	d := newDoor(t)
	create := func(body, want string) step {
		return step{"POST", "/api/v1/sandboxes", body, nil, 403, `"detail":"` + want + `.*"class":"not_allowed"`}
	}
	all := []string{
		`{"id":"job-1","image":"alpine"}`, `{"id":"job-1","pool":"gold"}`, `{"id":"job-1","volumes":[{"name":"code","path":"x","mount":"/x"}]}`,
	}
	for _, body := range all {
		d.walk(create(body, ""))
	}
	d.allow(boundedPolicy)
	d.walk(
		create(all[0], `image: \\"alpine\\" is not allowed`),
		create(all[1], `pool: \\"gold\\" is not allowed`),
		create(`{"id":"job-1","volumes":[{"name":"data","mount":"/x"}]}`, `volumes: \\"data\\" is not allowed`),
		create(`{"id":"job-1","volumes":[{"name":"code","mount":"/x"}]}`, `volumes: the path \\"\\" has 0 components`),
		create(`{"id":"job-1","lifetime_seconds":3601}`, `lifetime_seconds: `),
		create(`{"id":"job-1","lifetime_seconds":9223372036854775807}`, `lifetime_seconds: `),
		create(`{"id":"job-1","cpu":"3"}`, `cpu: 3 is not allowed: the most is 2`),
		step{"POST", "/api/v1/sandboxes", `{"id":"job-1","volumes":[{"name":"code","path":"../other","mount":"/x"}]}`, nil, 422, `"class":"invalid"`},
		step{"POST", "/api/v1/sandboxes", `{"id":"job-1","cpu":"1 m"}`, nil, 422, `"class":"invalid"`},
		step{"POST", "/api/v1/sandboxes", `{"id":"job-1","labels":{},"service_account":"x"}`, nil, 422, `unexpected property`},
		step{"GET", "/api/v1/sandboxes", "", nil, 200, `"sandboxes":\[\]`},
	)
}

// What only a pod has is refused, and not ignored: a sandbox without the bounds of its tenant
// would be worse than none.
func TestLocalSandboxesRefuseWhatOnlyPodsHave(t *testing.T) {
	d := newDoor(t)
	d.allow(`
    images: ["**"]
    pools: ["*"]
    volumes: [{name: code, claim: shared}]`)
	for body, field := range map[string]string{
		`{"image":"alpine"}`: "image", `{"pool":"go"}`: "pool", `{"cpu":"1"}`: "cpu or memory", `{"memory":"1Gi"}`: "cpu or memory",
		`{"storage":"1Gi"}`: "storage, keep or auto_pause", `{"keep":true}`: "storage, keep or auto_pause", `{"lifetime_seconds":60}`: "lifetime_seconds", `{"idle_seconds":60}`: "idle_seconds",
		`{"volumes":[{"name":"code","mount":"/x"}]}`: "volumes",
	} {
		d.walk(step{"POST", "/api/v1/sandboxes", body, nil, 422, `"detail":"` + field + ` is set, but the local launcher makes no pods.*"class":"invalid"`})
	}
	for _, bound := range []string{"cpu: 1", "memory: 1Gi", "storage: 1Gi", "lifetime: 1h", "idle: 1h"} {
		d.allow("    max: {" + bound + "}")
		d.walk(step{"POST", "/api/v1/sandboxes", `{}`, nil, 422, `is set, but the local launcher makes no pods`})
	}
}

func TestTenantsEnvironmentIsOfCommandsAlone(t *testing.T) {
	d := newDoor(t)
	workdir := d.send("a", "POST", "/api/v1/sandboxes", `{"id":"job-1"}`).text
	d.walk(
		step{"DELETE", "~", "", nil, 204, ``},
		step{"POST", "/api/v1/sandboxes", `{"id":"job-1","env":["PODAGENT_WORKDIR=/","PODAGENT_READ_ONLY=/","PODAGENT_LISTEN=tcp:127.0.0.1:1","A=$(PATH)"]}`, nil, 201, `^` + regexp.QuoteMeta(workdir) + `$`},
		step{"PUT", "~/files?path=a", "x", nil, 201, ``},
		step{"POST", "~/exec", `{"script":"ls; echo $PODAGENT_WORKDIR $A"}`, nil, 200, `"stdout":"a\\n/ \$\(PATH\)\\n"`},
		step{"POST", "/api/v1/sandboxes", `{"env":["A"]}`, nil, 422, `not NAME=VALUE`},
		step{"POST", "/api/v1/sandboxes", `{"env":["A=\u0000"]}`, nil, 422, `not NAME=VALUE`},
	)
}

func TestPoliciesWithMistakesLetNobodyIn(t *testing.T) {
	d := newDoor(t)
	for _, wrong := range []string{
		`images: ["[a"]`, `images: [""]`, `pools: [""]`, `image: [a]`,
		`max: {cpu: -1}`, `max: {lifetime: 1}`, `max: {lifetime: -1h}`, `max: {gpu: 1}`,
		`volumes: [{name: Code, claim: c}]`, `volumes: [{name: c, claim: ""}]`, `volumes: [{name: c, claim: c, prefix: ../x}]`,
		`volumes: [{name: c, claim: c, prefix: "/org"}]`, `volumes: [{name: c, claim: c, prefix: "{other}"}]`, `volumes: [{name: c, claim: c, depth: -1}]`,
		`volumes: [{name: c, claim: c}, {name: c, claim: d}]`, `volumes: [{name: c, claim: c}, {name: d, claim: c, prefix: x}]`,
	} {
		d.allow("    " + wrong)
		d.walk(step{"GET", "/api/v1/sandboxes", "", nil, 503, `cannot tell who calls`})
	}
	d.allow(boundedPolicy)
	d.walk(step{"GET", "/api/v1/sandboxes", "", nil, 200, ``})
}

func TestCreateChecksOutARepository(t *testing.T) {
	d, repo := newDoor(t), t.TempDir()
	script := `git init -q -b main && echo hello > file && git add file && git -c user.name=a -c user.email=a@example.com commit -qm one`
	cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
	cmd.Dir = repo
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	create := func(git string) string { return `{"id":"job-1","git":` + git + `}` }
	d.walk(
		step{"POST", "/api/v1/sandboxes", create(`{"url":"` + repo + `","ref":"none"}`), nil, 422, `"class":"git"`},
		step{"POST", "/api/v1/sandboxes", create(`{"url":"https://u:secret@example.com/a"}`), nil, 422, `"detail":"git.url has a user in it, .*"class":"invalid"`},
		step{"GET", "~", "", nil, 404, ``},
		step{"POST", "/api/v1/sandboxes", create(`{"url":"` + repo + `","ref":"main"}`), nil, 201, ``},
		step{"GET", "~/files?path=file", "", nil, 200, `^hello\n$`},
	)
}

// Host is a complete agent host, to read and to copy. It does one job from a queue.
// If it is killed, the queue tries the job again. The sandbox with its workspace,
// the commands that run there, and the conversation all belong to the job's id, so
// a retry finds them.
//
//	host -job job-17 -prompt 'Release the project.' -script script.json
//
// The model is a script, so that the host needs no network. To use a real one,
// implement the interface Model, with two methods.
//
// # What may be done twice
//
// The host may be killed at any moment, even by KILL, and tried again with the same
// id. If the conversation is kept in the cluster, the retry may run on another
// machine. Before each call of a tool, the host saves in the conversation that it
// is about to make the call, and the exec id of its command; after the call, it
// saves the answer. So a retry knows which one call may have been interrupted:
//
//   - A Bash command never runs twice, and continues while there is no host. The
//     sandbox's agent knows it by its exec id, and the retry gets its whole output
//     and its exit status.
//   - Read, Glob, Grep and BashOutput are repeated. They change nothing, but
//     BashOutput shows the same output again.
//   - Write and BashKill are repeated. Doing them twice changes nothing more.
//   - Edit, and any tool of your own that does not declare itself idempotent, is
//     not repeated. The model is told that the call may have been done, and has to
//     check. The same holds for a command whose agent was restarted meanwhile,
//     since commands end with their agent, and for one that ended a day ago.
//   - If the host was killed before it saved a message of the model, it asks the
//     model again. None of that message's calls had been made.
//
// If the sandbox is lost, for example with its node, the host launches a new one and
// copies the project there. Before it makes any call in the new sandbox, it tells
// the model: it answers the pending calls with an error.
//
// The conversation also says whether the job has ended. Then a retry prints the
// answer again, and makes sure that the sandbox is gone. With -forget, the host
// finally removes the conversation, too: a later try of the job starts from the
// beginning.
//
// With -test, the host runs a test when the job begins and after each turn of the
// model that may have changed something. When it has passed before and fails now, the
// workspace is rewound to the checkpoint of the call after which it last passed, and
// the model is told. The conversation has the checkpoint of each call. A retry may run the test
// again, and rewind again.
//
// If two hosts have the same job, one of them gives up. In the cluster, the second
// cannot get the sandbox, and says which host owns it. On every backend, a host
// saves the conversation before it does anything else, even before it repeats a
// call. If the second host cannot save, it gives up, and has done nothing. If it
// can, the first host gives up after its current call. A host that gives up exits
// with status 75 (EX_TEMPFAIL): try again later. A killed host owns its sandbox for
// another 30 s; -wait waits for that.
//
// The host does not handle signals, because that would add another way to end that
// must be right: TERM works like KILL.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/tools/secret"
	"github.com/podagent/podagent/pkg/tools/sessionstore"
)

func main() {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	err := run(context.Background(), log)
	if err == nil {
		return
	}
	log.Error("this try has failed", "error", err)
	if errors.Is(err, launcher.ErrOwned) || errors.Is(err, sessionstore.ErrConflict) {
		os.Exit(exitTryLater)
	}
	os.Exit(1)
}

func run(ctx context.Context, log *slog.Logger) error {
	job := flag.String("job", "", "the `ID` of the job, the same for each try (required)")
	prompt := flag.String("prompt", "", "the task for the model")
	script := flag.String("script", "", "a `FILE` with the model's messages, as a JSON array (required)")
	project := flag.String("project", "", "a `DIR` to copy into the workspace of a new job")
	test := flag.String("test", "", "a shell `COMMAND` to run after each turn of the model; when it no longer passes, the workspace is rewound to where it did")
	token := flag.String("secret", "", "the `NAME` of an environment variable that commands get but the model never sees")
	wait := flag.Duration("wait", 0, "how long to wait for another host that owns the job, or was killed with it")
	forget := flag.Bool("forget", false, "also remove the conversation when the job is done")
	options := backendFlags(flag.CommandLine)
	flag.Parse()
	if *job == "" || *script == "" || flag.NArg() > 0 {
		flag.Usage()
		return errors.New("-job and -script are required, and there are no other arguments")
	}
	model, err := readScript(*script)
	if err != nil {
		return err
	}
	where, store, err := options.open(log)
	if err != nil {
		return err
	}
	h := &host{
		job: *job, prompt: *prompt, project: *project, test: *test, wait: *wait,
		model: model, backend: where, store: store, secrets: map[string]secret.Provider{}, log: log,
	}
	if *token != "" {
		h.secrets[*token] = secret.Env(*token)
	}
	answer, err := h.run(ctx)
	if err != nil {
		return err
	}
	fmt.Println(answer)
	if *forget {
		return store.Delete(ctx, *job)
	}
	return nil
}

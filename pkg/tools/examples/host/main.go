// Host is a complete agent host, to be read and copied: it does one job, which a
// queue gives it and gives it again when it was killed. Three things have the
// job's id, so that a retry finds all of them: the sandbox with its workspace,
// the commands that run there, and the conversation.
//
//	host -job job-17 -prompt 'Release the project.' -script script.json
//
// The model is a script, so that it needs no network: what stands for a real one
// is the interface Model, of two methods.
//
// # What may be done twice
//
// The host may be killed at any moment, by KILL, and be tried again with the
// same id, also on another machine if the conversation is kept in the cluster.
// Before each call of a tool, the conversation says that the call is about to
// be made, and by which exec id a command will run; after it, what came back.
// So a retry knows which one call it may have been in the midst of:
//
//   - A command of Bash is never run twice, and goes on while there is no host:
//     the sandbox's agent knows it by the exec id, and the retry gets its whole
//     output and its end.
//   - Read, Glob, Grep and BashOutput are made again. They change nothing;
//     BashOutput shows again what it has shown.
//   - Write and BashKill are made again. What they do twice is the same.
//   - Edit, and any tool of one's own that does not say of itself that it is
//     idempotent, is not made again: the model is told that it may have been
//     done, and has to look. So is a command whose agent was restarted
//     meanwhile, since commands end with it, or that ended a day ago.
//   - What the model said is asked for again if the host was killed before it
//     was saved. Nothing of it was done then.
//
// A sandbox that was lost, such as with its node, is followed by a new one with
// the project in it. No call is made there before the model knows: those that it
// waits for are answered by an error that says so.
//
// A job that has ended is told by its conversation: a retry says the answer
// again, and makes sure that the sandbox is gone. With -forget the conversation
// is removed at last, too: then a job that is tried after that begins anew.
//
// Of two hosts that have one job at the same time, the second gives up. In the
// cluster it cannot have the sandbox, and says who has it. Everywhere it cannot
// save the conversation, which comes before all else that it does, also before a
// call that is made again: so nothing that it has not announced is ever done. If
// it can save, it is the first that gives up, after the call that it is in. It
// exits with 75 (EX_TEMPFAIL): try again later. A host that was killed has its
// sandbox for 30 s more; -wait waits for that.
//
// There is no handler of signals, since one more way to end would have to be
// right: TERM is as good as KILL.
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
	prompt := flag.String("prompt", "", "what is to be done")
	script := flag.String("script", "", "a `FILE` with what the model says, a JSON array of messages (required)")
	project := flag.String("project", "", "a `DIR` whose content the workspace of a new job gets")
	token := flag.String("secret", "", "the `NAME` of an environment variable that commands get, and that the model never sees")
	wait := flag.Duration("wait", 0, "for how long to wait for another host that has the job, or was killed with it")
	forget := flag.Bool("forget", false, "remove the conversation, too, when the job is done")
	place := placeFlags(flag.CommandLine)
	flag.Parse()
	if *job == "" || *script == "" || flag.NArg() > 0 {
		flag.Usage()
		return errors.New("-job and -script are needed, and nothing but flags")
	}
	model, err := readScript(*script)
	if err != nil {
		return err
	}
	where, store, err := place.open(log)
	if err != nil {
		return err
	}
	h := &host{
		job: *job, prompt: *prompt, project: *project, wait: *wait,
		model: model, place: where, store: store, secrets: map[string]secret.Provider{}, log: log,
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

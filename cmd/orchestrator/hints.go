package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/podagent/podagent/pkg/egress/farend"
	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/agentsandbox"
	"github.com/podagent/podagent/pkg/podapi"
)

// A hint tells the user what to do about an error.
type hint struct {
	// is reports whether the hint is for this error.
	is func(error) bool
	// say follows the error's text after a colon. %s in it stands for the sandbox's
	// id, quoted for a shell.
	say string
	// instead replaces the error's text. %q in it stands for the id.
	instead string
}

// hints are tried in this order. The first one that fits is printed.
var hints = []hint{
	{is: isErr(launcher.ErrNotFound), instead: `no sandbox %q`, say: `create it with "orchestrator up %s"`},
	{is: isErr(launcher.ErrNoAgent)},
	{is: func(err error) bool { return opOf(err) == "fork/exec" }, say: "set PODAGENT_BIN to the path of the podagent binary"},
	{is: isNoCluster, say: "give --kubeconfig FILE, or use --backend local"},
	{is: isErr(agentsandbox.ErrNotInstalled), say: `install a release of https://github.com/kubernetes-sigs/agent-sandbox with its extensions, or use --backend kubernetes`},
	{is: isErr(agentsandbox.ErrNoController), say: `see whether the Deployment agent-sandbox-controller runs, with its extensions`},
	{is: isErr(agentsandbox.ErrNoWarmPool), say: `"orchestrator agent-sandbox template NAME | kubectl apply -f -" makes one`},
	{is: isErr(agentsandbox.ErrNoTemplate), say: `"orchestrator agent-sandbox template NAME | kubectl apply -f -" makes one`},
	{is: isErr(launcher.ErrImage), say: "choose another --image, or make this one available to the nodes"},
	{is: isErr(launcher.ErrUnschedulable), say: "ask for less with --requests, or add a node that can hold the pod"},
	{is: isErr(launcher.ErrCannotStart), say: "the --image must have podagent in its PATH, and work for user 1000 (--profile baseline: for root)"},
	{is: isErr(launcher.ErrCrashLoop), say: "the --image must have podagent in its PATH, and work for user 1000 (--profile baseline: for root)"},
	{is: isErr(launcher.ErrNotReady), say: `give it a longer --ready-timeout, or look for the reason with "orchestrator doctor"`},
	{is: isNoRuntimeClass, say: `"kubectl get runtimeclasses" lists those that --runtime-class can name`},
	{is: isUnknownSpec, say: `make the other one with "orchestrator up", and give it the files with "orchestrator export" and "orchestrator import"`},
	{is: isErr(launcher.ErrRejected), say: "keep to the namespace's quota with --requests and --limits, and to its Pod Security Standard with --profile"},
	{is: isErr(launcher.ErrForbidden), say: `"orchestrator doctor", with these flags, says which permission is missing`},
	{is: isErr(launcher.ErrNoNamespace), say: `create it with "kubectl create namespace", or give another --namespace`},
	{is: isErr(launcher.ErrNotOurs), say: "choose another id or --namespace"},
	{is: isErr(launcher.ErrOtherKey), say: "give the identity that it was launched with: --identity or --identity-secret"},
	{is: isErr(launcher.ErrNewer), say: `"orchestrator version" says which one this is`},
	{is: isErr(launcher.ErrUnsigned), say: `look at the pod with "orchestrator identity adopt %s", which also says how to sign it, or launch it again with "orchestrator up"`},
	{is: isErr(launcher.ErrPaused), say: `"orchestrator resume %s" goes on with it, "orchestrator down %s" removes it with its files`},
	{is: isErr(launcher.ErrNotKept), say: `launch it with --keep-workspace, or remove it and its files with "orchestrator down %s"`},
	{is: isErr(launcher.ErrNoStorageClass), say: `name one with --storage-class, or make one the default with "kubectl annotate storageclass NAME storageclass.kubernetes.io/is-default-class=true"`},
	{is: isErr(launcher.ErrNoLifetime), say: "launch it with --lifetime"},
	{is: isErr(launcher.ErrDeadline), say: "launch it with a longer --active-deadline"},
	{is: isErr(launcher.ErrEnded), say: `"orchestrator down %s" and "orchestrator up %s" make another`},
	{is: isErr(launcher.ErrStale), say: `"orchestrator up %s --on-stale recreate" makes another; the files are lost, unless the workspace was kept`},
	{is: isErr(launcher.ErrNoListener), say: `leave out --connection address, or remove it with "orchestrator down %s"`},
	{is: isErr(launcher.ErrDrift), say: `leave out --on-drift error, or what the flags ask for beyond it, to use it as it is, or remove it with "orchestrator down %s"`},
	{is: isErr(launcher.ErrEgress), say: `make it anew with --egress, or ask for less with --egress-require; "orchestrator doctor" says what holds in the cluster`},
	{is: isErr(farend.ErrServed), say: "give the rules to that program, or leave out --allow-host and --credential to use its own"},
	{is: isErr(launcher.ErrOwned), say: "wait until its owner has closed it, or leave out --exclusive"},
	{is: isErr(launcher.ErrGone), say: `"orchestrator up %s" makes another; the files are lost, unless the workspace was kept`},
	{is: isKeptFrom(true), say: "check --git and --git-ref; an isolated sandbox reads a repository of this machine if --readable DIR names its directory"},
	{is: isKeptFrom(false), say: "check --git and --git-ref; an isolated sandbox reaches servers by its proxy alone, and so by https:// and http://"},
	{is: isGit, say: "check --git and --git-ref, and the login in PODAGENT_GIT_USERNAME and PODAGENT_GIT_PASSWORD"},
	{is: isNoServer, say: `"orchestrator doctor" checks the connection to the API server`},
	{is: isErr(podapi.ErrVersion)},
	{is: isErr(podapi.ErrUnauthenticated), say: "give the identity that the sandbox was launched with: --identity or --identity-secret"},
	{is: isErr(podapi.ErrAgentLost), say: "the command may have had effects: look at the files before you run it again"},
	{is: isErr(podapi.ErrConflict), say: `choose another --exec-id, or go back to the other command with "orchestrator attach"`},
	{is: isErr(podapi.ErrExecExpired), say: `"orchestrator ps %s -a" lists the commands that the agent knows`},
	{is: isErr(podapi.ErrProtocol), say: "do not trust what this sandbox says: its agent is another program, or a broken one"},
	{is: isErr(podapi.ErrCut), say: `"orchestrator list" says whether the agent still runs`},
	{is: isErr(podapi.ErrUnavailable), say: `"orchestrator list" says whether the agent still runs, "orchestrator up %s" starts it again`},
	{is: isErr(syscall.EADDRINUSE), say: "give another LOCAL port, or :PORT for a free one"},
	{is: isOutsideLink, say: "--outside-links also copies symbolic links that lead out of the tree"},
	{is: isErr(fsops.ErrChanged), say: "read it again"},
	{is: isErr(fsops.ErrProtected), say: `"orchestrator describe %s" lists what is protected, and "orchestrator up %s --protect GLOB" replaces that`},
	{is: isEdit(true), say: "give --old more of the text around it, or --all to replace every occurrence"},
	{is: isEdit(false), say: "give --old exactly as it is in the file, white space included"},
	{is: isOutside, say: "launch one with --readable DIR, the directory of all that belongs to it"},
	{is: isOp("exec", fs.ErrNotExist), say: "give the path of a command, or the name of one in the PATH of the sandbox"},
	{is: isOp("exec", fs.ErrPermission), say: `make it executable ("chmod +x"), or run it with an interpreter`},
	{is: isOp("exec", syscall.ENOEXEC), say: "it is neither a program of this platform nor a script that begins with #!"},
	{is: isOp("chdir", fs.ErrNotExist), say: "make it with \"orchestrator mkdir -p\", or give another --workdir"},
	{is: isOp("write", fs.ErrNotExist), say: `make its directory first, with "orchestrator mkdir -p" or "put --parents"`},
	{is: isOp("write", fs.ErrExist), say: "leave out --exclusive to replace it"},
	{is: isOp("mkdir", fs.ErrNotExist), say: "-p makes the missing directories"},
	{is: isOp("mkdir", fs.ErrExist), say: "with -p that is no error"},
	{is: isOp("rename", fs.ErrExist), say: "NEW is the full new name; only a file can be replaced, and only without --no-clobber"},
	{is: isOp("remove", syscall.ENOTEMPTY), say: "-r removes it with everything in it"},
	{is: isOp("remove", syscall.EISDIR), say: "-r removes it with everything in it"},
	{is: isOp("remove", syscall.EBUSY, syscall.EINVAL), say: "the workdir and what is above it stay: name what is in it"},
	{is: isOp("remove", fs.ErrNotExist), say: "with -f that is no error"},
	{is: isOp("read", syscall.EISDIR), say: `"orchestrator ls" lists it, "orchestrator cp" copies it`},
}

// explain returns err as a sentence with advice.
func explain(err error) string {
	var id string
	if sandbox, ok := errors.AsType[*sandboxError](err); ok {
		id = sandbox.id
	}
	text := message(err)
	for _, h := range hintsFor(err) {
		if !h.is(err) {
			continue
		}
		if h.instead != "" {
			text = fmt.Sprintf(h.instead, id)
		}
		if h.say != "" {
			text += ": " + strings.ReplaceAll(h.say, "%s", quote(id))
		}
		break
	}
	return text
}

// message returns the text of err. For a command's end it is a sentence, and for a wrong
// Spec it names the flag.
func message(err error) string {
	if spec, ok := errors.AsType[*launcher.SpecError](err); ok {
		return specText(spec, err)
	}
	if isNoCluster(err) {
		return "there is no kubeconfig, and this does not run in a cluster"
	}
	exit, ok := errors.AsType[*podapi.ExitError](err)
	if !ok {
		return localNames.Replace(err.Error())
	}
	switch exit.Reason {
	case podapi.TimedOut:
		return fmt.Sprintf("the command ran into its timeout and was ended after %v", exit.Wall.Round(time.Millisecond))
	case podapi.OutOfMemory:
		return "the command was ended because the sandbox ran out of memory"
	case podapi.AgentLost:
		return "the agent restarted while the command ran: how it ended is not known"
	}
	return err.Error()
}

func isErr(target error) func(error) bool {
	return func(err error) bool { return errors.Is(err, target) }
}

// isNoRuntimeClass reports whether the API server does not know a pod's RuntimeClass. It says so
// in words alone.
func isNoRuntimeClass(err error) bool {
	return errors.Is(err, launcher.ErrRejected) && strings.Contains(err.Error(), "RuntimeClass ")
}

// isNoCluster reports whether err says that no cluster was named.
func isNoCluster(err error) bool { return errors.Is(err, clientcmd.ErrEmptyConfig) }

func isGit(err error) bool { return errors.As(err, new(*launcher.GitError)) }

func isOutside(err error) bool { return errors.As(err, new(*outsideError)) }

func isUnknownSpec(err error) bool { return errors.As(err, new(unknownSpecError)) }

// isNoServer reports whether err says that the API server was not reached.
func isNoServer(err error) bool {
	return isHere(err) && errors.As(err, new(*url.Error))
}

// isOp returns a test for an error of this operation in the sandbox, of one of
// these classes.
func isOp(op string, classes ...error) func(error) bool {
	return func(err error) bool {
		if opOf(err) != op || isHere(err) {
			return false
		}
		for _, class := range classes {
			if errors.Is(err, class) {
				return true
			}
		}
		return false
	}
}

// isHere reports whether err comes from this machine and not from the sandbox.
func isHere(err error) bool {
	sandbox, ok := errors.AsType[*sandboxError](err)
	return ok && sandbox.launching || errors.As(err, new(*localError)) || errors.As(err, new(usageError))
}

// isOutsideLink reports whether err says that an archive has a symbolic link which leads
// out of the tree. Other unsafe entries are no accident, and nobody should take them.
func isOutsideLink(err error) bool {
	entry, ok := errors.AsType[*fs.PathError](err)
	// The name of the entry is the archive's. The rest is of package fsops, whose errors
	// keep their words on the wire.
	return ok && errors.Is(err, fsops.ErrUnsafeArchive) &&
		strings.HasPrefix(entry.Err.Error(), fsops.ErrUnsafeArchive.Error()+": it links to ")
}

func isEdit(several bool) func(error) bool {
	return func(err error) bool {
		edit, ok := errors.AsType[*fsops.EditError](err)
		return ok && several == (edit.Count > 0)
	}
}

// opOf returns the operation that err names; empty if it names none.
func opOf(err error) string {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Op
	}
	if e, ok := errors.AsType[*os.LinkError](err); ok {
		return e.Op
	}
	return ""
}

// quote returns s as a word for a shell.
func quote(s string) string {
	plain := func(r rune) bool {
		return r > ' ' && r < 0x7f && !strings.ContainsRune("\"'`$\\|&;<>()*?[]#~!{}", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	if strings.IndexFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) >= 0 {
		return strconv.Quote(s)
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

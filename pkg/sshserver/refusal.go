package sshserver

import (
	"io"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

// RefuseClient tells a client that was let in why nobody serves it, in place of [Server.ServeClient]: by the standard
// error of what its sessions start, which exits with status 255, and by refusing all else. It returns when the
// client has left, or after some seconds, with the connection closed. Told is false if the client has
// asked for nothing.
func RefuseClient(client *ssh.ServerConn, channels <-chan ssh.NewChannel, requests <-chan *ssh.Request, why string) (told bool) {
	defer client.Close()
	late := time.AfterFunc(RefusalTime, func() { client.Close() })
	defer late.Stop()
	go ssh.DiscardRequests(requests)
	why = plain(strings.Join(strings.Fields(why), " "))
	for opened := range channels {
		if opened.ChannelType() == "session" {
			told = refuseSession(opened, why) || told
		} else {
			told = opened.Reject(ssh.ResourceShortage, why) == nil || told
		}
	}
	return told
}

// refuseSession waits for what a session is to start, and has that say why it does not.
func refuseSession(opened ssh.NewChannel, why string) (told bool) {
	channel, requests, err := opened.Accept()
	if err != nil {
		return false
	}
	defer channel.Close()
	end := "\n"
	for r := range requests {
		switch r.Type {
		case "shell", "exec", "subsystem":
			_ = r.Reply(true, nil) // it fails only if the client is gone
			go ssh.DiscardRequests(requests)
			_, err := io.WriteString(channel.Stderr(), why+end)
			_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{statusTrouble}))
			return err == nil
		case "pty-req":
			end = "\r\n"
		}
		_ = r.Reply(r.Type == "pty-req" || r.Type == "env", nil)
	}
	return false
}

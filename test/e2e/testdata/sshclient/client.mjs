// Uses ssh2 in a sandbox, by way of the ProxyCommand that follows KNOWN_HOSTS, PORT and KEY, and prints
// what it saw. PORT is that of an HTTP server in the sandbox. KEY is the file of the client's key, or empty.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile, stat, writeFile } from "node:fs/promises";
import { Duplex } from "node:stream";
import { text } from "node:stream/consumers";
import { promisify } from "node:util";
import ssh2 from "ssh2";

const [knownHosts, port, key, program, ...args] = process.argv.slice(2);

const pinned = (await readFile(knownHosts, "utf8")).trim().split("\n").map((line) => line.split(" ")[2]);

const proxy = spawn(program, args, { stdio: ["pipe", "pipe", "inherit"] });
const client = new ssh2.Client();
const ready = once(client, "ready");
client.connect({
  sock: Duplex.from({ readable: proxy.stdout, writable: proxy.stdin }),
  username: "a",
  privateKey: key ? await readFile(key) : undefined,
  hostVerifier: (key) => pinned.includes(key.toString("base64")),
});
await ready;

const call = (name, ...args) => promisify(client[name]).call(client, ...args);

// open opens a channel. It may end before whoever awaits it goes on.
const open = (name, ...args) => new Promise((resolve, reject) => client[name](...args, (error, channel) => {
  if (error) return reject(error);
  channel.status = new Promise((exited) => channel.on("exit", (...of) => exited(of)));
  resolve(channel);
}));

// end returns the output of a channel, and its status.
async function end(channel) {
  const out = await text(channel);
  const [code, signal] = await channel.status;
  return { out, code, signal };
}

const report = {};

const command = await open("exec", 'cat; echo "$GREETING"; exit 7', { env: { GREETING: "from the environment" } });
command.end("input\n");
report.exec = await end(command);

const killed = await open("exec", "kill -TERM $$");
report.killed = await end(killed);

const shell = await open("shell", { term: "xterm", rows: 30, cols: 100 });
shell.write("stty size; exit 3\n");
report.shell = await end(shell);

const sftp = await call("sftp");
const file = (name, ...args) => promisify(sftp[name]).call(sftp, ...args);
const content = Buffer.alloc(5 << 20, "0123456789\n");
await writeFile("local", content, { mode: 0o640 });
await file("fastPut", "local", "there", { mode: 0o640 });
await file("fastGet", "there", "back");
report.same = content.equals(await readFile("back"));
const attributes = await file("stat", "there");
report.mode = attributes.mode & 0o777;
report.size = [attributes.size, (await stat("back")).size];
sftp.end();

const forwarded = await call("forwardOut", "127.0.0.1", 0, "localhost", Number(port));
forwarded.end("GET /greeting HTTP/1.0\r\n\r\n");
report.forwarded = await text(forwarded);

client.end();
const [status] = await once(proxy, "close");
report.proxy = status;
console.log(JSON.stringify(report));

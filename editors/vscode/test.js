// Speaks to `kiln lsp` with the protocol library that the editor's own client is built on: node test.js KILN SOURCE.
const { spawn } = require('child_process');
const { readFileSync } = require('fs');
const { pathToFileURL } = require('url');
const protocol = require('vscode-languageserver-protocol/node');

const [kiln, source] = process.argv.slice(2);
const uri = pathToFileURL(source).href;
const server = spawn(kiln, ['lsp'], { stdio: ['pipe', 'pipe', 'inherit'] });
const connection = protocol.createProtocolConnection(
  new protocol.StreamMessageReader(server.stdout),
  new protocol.StreamMessageWriter(server.stdin),
);
const fail = (why) => {
  console.error(why);
  process.exit(1);
};
setTimeout(() => fail('no answer in 60 seconds'), 60000);

connection.onNotification(protocol.PublishDiagnosticsNotification.type, async ({ diagnostics }) => {
  const textDocument = { uri };
  const lenses = await connection.sendRequest(protocol.CodeLensRequest.type, { textDocument });
  console.log(diagnostics.map((one) => `${one.range.start.line + 1}: ${one.code}`).join('\n'));
  console.log(lenses.map((lens) => lens.command.title).join('\n'));
  await connection.sendRequest(protocol.ShutdownRequest.type);
  await connection.sendNotification(protocol.ExitNotification.type);
  server.on('exit', (code) => process.exit(code));
});
connection.listen();
connection
  .sendRequest(protocol.InitializeRequest.type, { processId: process.pid, rootUri: null, capabilities: {} })
  .then(async ({ capabilities }) => {
    if (!capabilities.hoverProvider) fail('no hover');
    await connection.sendNotification(protocol.InitializedNotification.type, {});
    const text = readFileSync(source, 'utf8');
    const textDocument = { uri, languageId: 'c', version: 1, text };
    await connection.sendNotification(protocol.DidOpenTextDocumentNotification.type, { textDocument });
  })
  .catch((error) => fail(error));

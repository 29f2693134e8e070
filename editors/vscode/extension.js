// Starts `kiln lsp` for C sources; what the editor shows comes from the server.
const vscode = require('vscode');
const { LanguageClient } = require('vscode-languageclient/node');

let client;

exports.activate = async () => {
  const command = vscode.workspace.getConfiguration('kiln').get('path', 'kiln');
  const server = { command, args: ['lsp'] };
  client = new LanguageClient('kiln', 'Kiln', server, { documentSelector: [{ scheme: 'file', language: 'c' }] });
  await client.start();
};

exports.deactivate = () => client?.stop();

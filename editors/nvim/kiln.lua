-- Kiln in Neovim (0.7 or newer): put this file in ~/.config/nvim/plugin/.
--
-- A C file is checked when it is opened and after each save, if it has BPF programs. Beside the diagnostics:
--   K                 what the verifier knows at a line (vim.lsp.buf.hover, mapped for you since 0.10)
--   vim.lsp.codelens.refresh() and .run()          a verdict above each program; check it on all kernels, optimize it
--   vim.lsp.inlay_hint.enable(true)                how often the verifier went over a line (0.10 or newer)

local command = { vim.env.KILN or 'kiln', 'lsp' }
local client

local function attach(buffer)
  local path = vim.api.nvim_buf_get_name(buffer)
  local options = { name = 'kiln', cmd = command, root_dir = vim.fn.fnamemodify(path, ':h') }
  if vim.lsp.start then
    vim.lsp.start(options, { bufnr = buffer })
    return
  end
  options.on_exit = function() client = nil end
  client = client or vim.lsp.start_client(options)
  if client then
    vim.lsp.buf_attach_client(buffer, client)
  end
end

vim.api.nvim_create_autocmd('FileType', {
  pattern = 'c',
  callback = function(event) attach(event.buf) end,
})

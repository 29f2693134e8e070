-- Draws Neovim's window, once it shows a diagnostic, as an SVG into $PICTURE. Line numbers are grey, what Kiln says is red.
local columns, lines = 124, 2 + vim.fn.line('$')
local width, height, margin = 8.4, 20, 16

vim.o.columns, vim.o.lines, vim.o.number = columns, lines, true
vim.wait(60000, function() return #vim.diagnostic.get(0) > 0 end, 20)
vim.cmd('redraw!')

local function escaped(text)
  return (text:gsub('[&<>]', { ['&'] = '&amp;', ['<'] = '&lt;', ['>'] = '&gt;' }))
end

-- A row's cells as text, in runs of one colour: the sign and the number, the source, the diagnostic behind it.
local function drawn(row)
  local runs, class = {}, 'number'
  for column = 1, columns do
    local cell = vim.fn.screenstring(row, column)
    if cell == '■' or (column == 1 and cell == 'E') then
      class = 'said'
    elseif column > 1 and column <= 6 then
      class = 'number'
    elseif class == 'number' then
      class = 'source'
    end
    local last = runs[#runs]
    if last and last.class == class then
      last.text = last.text .. cell
    else
      table.insert(runs, { class = class, text = cell })
    end
  end
  local text = ''
  for _, run in ipairs(runs) do
    text = text .. string.format('<tspan class="%s">%s</tspan>', run.class, escaped(run.text))
  end
  return string.format('<text x="%d" y="%d" xml:space="preserve">%s</text>', margin, margin + row * height - 5, text)
end

local picture = {
  string.format(
    '<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d">',
    columns * width + 2 * margin,
    vim.fn.line('$') * height + 2 * margin
  ),
  '<style>text { font: 14px monospace; fill: #1f2328 } .number { fill: #8b949e } .said { fill: #cf222e }</style>',
  '<rect width="100%" height="100%" rx="8" fill="#f6f8fa"/>',
}
for row = 1, vim.fn.line('$') do
  table.insert(picture, drawn(row))
end
table.insert(picture, '</svg>')
vim.fn.writefile(picture, vim.env.PICTURE)
vim.cmd('qall!')

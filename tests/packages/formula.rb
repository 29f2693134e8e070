# Plays Homebrew with a formula: formula.rb FORMULA DIST CELLAR. The tarball comes from DIST; its checksum, the installation
# and the formula's test are those that Homebrew would do.
require "delegate"
require "digest"
require "fileutils"
require "pathname"
require "tmpdir"

formula, dist, cellar = ARGV.map { |path| Pathname(path).expand_path }

# What a formula says, and what it is given.
class Formula
  class << self
    attr_reader :values, :check
    def method_missing(name, *values, **named) = (@values ||= {})[name] = values.first || named
    def respond_to_missing?(*) = true
    def on_intel = RbConfig::CONFIG["host_cpu"] == "x86_64" ? yield : nil
    def on_arm = RbConfig::CONFIG["host_cpu"] == "aarch64" ? yield : nil
    def test(&block) = @check = block
  end

  def initialize(cellar) = @cellar = cellar

  { bin: "bin", man1: "share/man/man1", doc: "share/doc/kiln", bash_completion: "etc/bash_completion.d",
    zsh_completion: "share/zsh/site-functions", fish_completion: "share/fish/vendor_completions.d" }.each do |name, path|
    define_method(name) { Room.new(@cellar / path) }
  end

  def testpath = Pathname(Dir.pwd)
  def shell_output(command) = `#{command}`.tap { raise "#{command} failed" unless $?.success? }
  def assert_match(text, output) = output.include?(text) || raise("no #{text} in #{output}")
end

# A folder to install into.
class Room < SimpleDelegator
  def install(*files)
    files = files.flatten
    raise "nothing to install" if files.empty?
    __getobj__.mkpath
    files.each { |file| FileUtils.cp(file, __getobj__) }
  end

  def to_s = __getobj__.to_s
end

load formula.to_s
raise "a place was not filled in" if formula.read.match?(/@[A-Z0-9_]+@/)
tarball = dist / File.basename(Kiln.values[:url])
raise "another checksum" unless Digest::SHA256.file(tarball).hexdigest == Kiln.values[:sha256]
FileUtils.rm_rf(cellar)
Dir.mktmpdir do |folder|
  system("tar", "-xzf", tarball.to_s, "-C", folder, exception: true)
  kiln = Kiln.new(cellar)
  Dir.chdir(Dir["#{folder}/*"].first) { kiln.install }
  Dir.mktmpdir { |room| Dir.chdir(room) { kiln.instance_eval(&Kiln.check) } }
end
puts "installed #{Dir["#{cellar}/**/*"].select { |path| File.file?(path) }.map { |path| path.delete_prefix(cellar.to_s) }.join(" ")}"

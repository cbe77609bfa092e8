# becalm for nixpkgs: pkgs.callPackage ./package.nix { }
{ lib, rustPlatform, installShellFiles, llvmPackages, stdenv }:

rustPlatform.buildRustPackage {
  pname = "becalm";
  version = (lib.importTOML ../../Cargo.toml).workspace.package.version;

  src = lib.cleanSource ../..;
  cargoLock.lockFile = ../../Cargo.lock;
  buildAndTestSubdir = "crates/cli";

  nativeBuildInputs = [ installShellFiles ];
  # Audit modules of every machine, for stores of others: by compilers without a C library, which the
  # modules do not use. LLVM's linker of nixpkgs knows all of them.
  BECALM_MODULES = "all";
  depsBuildBuild = [ llvmPackages.clang-unwrapped llvmPackages.lld ];

  # The tests start programs of the machine by its loader, which a sandbox does not have.
  doCheck = false;

  postInstall = lib.optionalString (stdenv.buildPlatform.canExecute stdenv.hostPlatform) ''
    mkdir man
    $out/bin/becalm generate man man
    installManPage man/*.1
    for shell in bash zsh fish; do
      $out/bin/becalm generate completions $shell > becalm.$shell
    done
    installShellCompletion becalm.bash becalm.zsh becalm.fish
  '';

  # With becalm in nativeBuildInputs, a package is fixed in its fixup phase.
  setupHook = ../../integrations/nix/becalm-hook.sh;

  meta = {
    description = "Starts programs without searching for their libraries";
    license = with lib.licenses; [ mit asl20 ];
    platforms = lib.platforms.linux;
    mainProgram = "becalm";
  };
}

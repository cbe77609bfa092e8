# A NixOS module: services.becalm.enable = true makes an index of /nix/store and gives it to all
# sessions.
self:
{ config, lib, pkgs, ... }:

let
  cfg = config.services.becalm;
in
{
  options.services.becalm = {
    enable = lib.mkEnableOption "an index of /nix/store for the dynamic loader";
    package = lib.mkOption {
      type = lib.types.package;
      default = self.packages.${pkgs.stdenv.hostPlatform.system}.default;
      description = "The becalm that makes the index.";
    };
    index = lib.mkOption {
      type = lib.types.str;
      default = "/var/lib/becalm/index.so";
      description = "Where the index is.";
    };
  };

  config = lib.mkIf cfg.enable {
    environment.systemPackages = [ cfg.package ];
    systemd.services.becalm-index = {
      description = "Index of /nix/store for the dynamic loader";
      wantedBy = [ "multi-user.target" ];
      startAt = "daily";
      serviceConfig = {
        Type = "oneshot";
        Nice = 19;
        StateDirectory = "becalm";
        ExecStart = pkgs.writeShellScript "becalm-index" ''
          if [ -e ${cfg.index} ]; then
            exec ${cfg.package}/bin/becalm index --update -o ${cfg.index}
          fi
          exec ${cfg.package}/bin/becalm index /nix/store -o ${cfg.index}
        '';
      };
    };
    # Nothing is set while there is no index: the loader would print an error for each start.
    environment.extraInit = ''
      if [ -r ${cfg.index} ]; then
        eval "$(${cfg.package}/bin/becalm env --index ${cfg.index})"
      fi
    '';
  };
}

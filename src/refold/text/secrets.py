"""Formats of secrets: what each looks like, and where that is documented."""
# ruff: noqa: E501 (rows of a table: one format a row)

from __future__ import annotations

from typing import NamedTuple


class Format(NamedTuple):
    kind: str
    literals: tuple[str, ...]
    """One of these must occur in the text."""
    pattern: str
    """Group 1, where there is one, is the secret."""
    source: str
    before: tuple[int, ...] = (0,)
    """How many characters before the literal the match may start."""
    loose: bool = False
    """The literal stands outside of the secret."""


_HEX = "0-9a-f"
FORMATS: tuple[Format, ...] = (
    Format("aws-access-key", ("AKIA", "ASIA", "ABIA", "ACCA"), r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b", "docs.aws.amazon.com/IAM: unique identifiers"),
    Format("github-token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"\bgh[pousr]_[A-Za-z0-9]{36,251}\b", "github.blog: authentication token formats"),
    Format("github-pat", ("github_pat_",), r"\bgithub_pat_[A-Za-z0-9_]{40,255}\b", "docs.github.com: fine-grained tokens"),
    Format("gitlab-token", ("glpat-", "gldt-", "glrt-", "glptt-", "glcbt-", "glsoat-"), r"\bgl(?:pat|dt|rt|ptt|cbt|soat)-[\w-]{20,100}", "docs.gitlab.com: token prefixes"),
    Format("slack-token", ("xoxb-", "xoxp-", "xoxa-", "xoxo-", "xoxr-", "xoxs-", "xoxe", "xoxd-", "xapp-"), r"\b(?:xox[abopsred](?:\.xox[bp])?|xapp)-[\w%-]{10,250}", "api.slack.com: token types"),
    Format("slack-webhook", ("hooks.slack.com/",), r"hooks\.slack\.com/(?:services|workflows|triggers)/([\w/-]{20,120})", "api.slack.com: incoming webhooks"),
    Format("stripe-key", ("sk_live_", "sk_test_", "rk_live_", "rk_test_"), r"\b[sr]k_(?:live|test)_[A-Za-z0-9]{10,240}\b", "docs.stripe.com: API keys"),
    Format("stripe-webhook", ("whsec_",), r"\bwhsec_[A-Za-z0-9+/=]{24,120}", "docs.stripe.com: webhook signatures"),
    Format("google-api-key", ("AIza",), r"\bAIza[\w-]{35}(?![\w-])", "cloud.google.com: API keys"),
    Format("google-oauth", ("GOCSPX-", "ya29."), r"\bGOCSPX-[\w-]{28}|\bya29\.[\w-]{20,400}", "developers.google.com: OAuth 2.0"),
    Format("anthropic-key", ("sk-ant-",), r"\bsk-ant-[a-z0-9]{2,12}-[\w-]{20,200}", "docs.anthropic.com"),
    Format("openai-key", ("sk-",), r"\bsk-(?:proj|svcacct|admin|None)-[\w-]{20,250}|\bsk-(?!ant-|or-)(?=[A-Za-z]{0,47}\d)[A-Za-z0-9]{32,100}(?![\w-])", "platform.openai.com"),
    Format("openrouter-key", ("sk-or-",), rf"\bsk-or-v\d-[{_HEX}]{{40,80}}\b", "openrouter.ai/docs"),
    Format("huggingface-token", ("hf_", "api_org_"), r"\b(?:hf_|api_org_)[A-Za-z0-9]{34,40}\b", "huggingface.co/docs"),
    Format("npm-token", ("npm_",), r"\bnpm_[A-Za-z0-9]{36}\b", "npm documentation: access tokens"),
    Format("pypi-token", ("pypi-",), r"\bpypi-[A-Za-z0-9_-]{50,300}", "PyPI help: API tokens"),
    Format("sendgrid-key", ("SG.",), r"\bSG\.[\w-]{16,32}\.[\w-]{30,64}", "docs.sendgrid.com: API keys"),
    Format("twilio-key", ("SK", "AC"), rf"\b(?:SK|AC)[{_HEX}]{{32}}\b", "twilio.com/docs: API keys"),
    Format("mailgun-key", ("key-",), rf"\bkey-[{_HEX}]{{32}}\b", "documentation.mailgun.com"),
    Format("mailchimp-key", ("-us",), rf"\b[{_HEX}]{{32}}-us\d{{1,2}}\b", "mailchimp.com/developer", (32,)),
    Format("square-token", ("sq0atp-", "sq0csp-", "sq0idp-", "EAAA"), r"\bsq0(?:atp|csp|idp)-[\w-]{22,43}|\bEAAA[a-zA-Z0-9_-]{60}\b", "developer.squareup.com"),
    Format("shopify-token", ("shpat_", "shpca_", "shppa_", "shpss_"), r"\bshp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}\b", "shopify.dev: access tokens"),
    Format("digitalocean-token", ("dop_v1_", "doo_v1_", "dor_v1_"), rf"\bdo[opr]_v1_[{_HEX}]{{64}}\b", "docs.digitalocean.com: tokens"),
    Format("discord-token", ("MT", "MD", "Mj", "Mz", "ND", "NT", "Nj", "Nz", "OD", "OT", "Oj"), r"\b[MNO][A-Za-z\d]{23,25}\.[\w-]{6}\.[\w-]{27,38}(?![\w-])", "discord.com/developers: authentication"),
    Format("discord-webhook", ("/api/webhooks/",), r"/api/webhooks/(\d{17,20}/[\w-]{60,80})", "discord.com/developers: webhooks"),
    Format("telegram-token", (":AA",), r"(?<!\d)\d{8,10}:AA[\w-]{33}(?![\w-])", "core.telegram.org/bots", (8, 9, 10)),
    Format("atlassian-token", ("ATATT3", "ATCTT3", "ATBB"), r"\bAT(?:ATT|CTT)3[\w=-]{80,300}|\bATBB[A-Za-z0-9]{32}\b", "support.atlassian.com: API tokens"),
    Format("databricks-token", ("dapi",), rf"\bdapi[{_HEX}]{{32}}(?:-\d)?\b", "docs.databricks.com: tokens"),
    Format("linear-key", ("lin_api_", "lin_oauth_"), r"\blin_(?:api|oauth)_[A-Za-z0-9]{32,64}\b", "developers.linear.app"),
    Format("notion-token", ("secret_", "ntn_"), r"\bsecret_[A-Za-z0-9]{43}\b|\bntn_[A-Za-z0-9]{40,60}\b", "developers.notion.com"),
    Format("vault-token", ("hvs.", "hvb.", "hvr."), r"\bhv[sbr]\.[\w-]{24,300}", "developer.hashicorp.com/vault: tokens"),
    Format("terraform-token", (".atlasv1.",), r"\b[A-Za-z0-9]{14}\.atlasv1\.[\w-]{60,90}", "developer.hashicorp.com/terraform", (14,)),
    Format("age-key", ("AGE-SECRET-KEY-1",), r"\bAGE-SECRET-KEY-1[0-9A-Z]{58}\b", "age-encryption.org"),
    Format("grafana-token", ("glsa_", "glc_"), r"\bglsa_[A-Za-z0-9]{32}_[0-9a-fA-F]{8}\b|\bglc_[A-Za-z0-9+/=]{32,400}", "grafana.com/docs: service accounts"),
    Format("newrelic-key", ("NRAK-", "NRJS-", "NRII-"), r"\bNR(?:AK|JS|II)-[A-Za-z0-9_-]{19,32}", "docs.newrelic.com: API keys"),
    Format("postman-key", ("PMAK-",), rf"\bPMAK-[{_HEX}]{{24}}-[{_HEX}]{{34}}\b", "learning.postman.com"),
    Format("docker-token", ("dckr_pat_", "dckr_oat_"), r"\bdckr_[po]at_[\w-]{27,40}", "docs.docker.com: access tokens"),
    Format("planetscale-token", ("pscale_",), r"\bpscale_(?:pw|tkn|oauth)_[\w.=-]{32,64}", "planetscale.com/docs"),
    Format("doppler-token", ("dp.pt.", "dp.st.", "dp.ct.", "dp.sa."), r"\bdp\.(?:pt|ct|sa|st(?:\.[a-z0-9_-]{2,35})?)\.[A-Za-z0-9]{40,44}\b", "docs.doppler.com"),
    Format("groq-key", ("gsk_",), r"\bgsk_[A-Za-z0-9]{40,60}\b", "console.groq.com"),
    Format("replicate-token", ("r8_",), r"\br8_[A-Za-z0-9]{37}\b", "replicate.com/docs"),
    Format("xai-key", ("xai-",), r"\bxai-[A-Za-z0-9]{60,100}\b", "docs.x.ai"),
    Format("perplexity-key", ("pplx-",), r"\bpplx-[A-Za-z0-9]{40,64}\b", "docs.perplexity.ai"),
    Format("supabase-token", ("sbp_", "sb_secret_"), rf"\bsbp_[{_HEX}]{{40}}\b|\bsb_secret_[\w-]{{20,60}}", "supabase.com/docs"),
    Format("sentry-token", ("sntrys_", "sntryu_"), r"\bsntry[su]_[A-Za-z0-9+/=_-]{40,400}", "docs.sentry.io: auth tokens"),
    Format("pulumi-token", ("pul-",), rf"\bpul-[{_HEX}]{{40}}\b", "pulumi.com/docs"),
    Format("rubygems-key", ("rubygems_",), rf"\brubygems_[{_HEX}]{{48}}\b", "guides.rubygems.org"),
    Format("crates-token", ("cio",), r"\bcio[A-Za-z0-9]{32}\b", "crates.io"),
    Format("sonar-token", ("squ_", "sqp_", "sqa_"), rf"\bsq[upa]_[{_HEX}]{{40}}\b", "docs.sonarsource.com"),
    Format("figma-token", ("figd_",), r"\bfigd_[\w-]{38,60}", "figma.com/developers"),
    Format("airtable-token", ("pat",), rf"\bpat[A-Za-z0-9]{{14}}\.[{_HEX}]{{64}}\b", "airtable.com/developers"),
    Format("heroku-key", ("HRKU-",), r"\bHRKU-[\w-]{36,70}", "devcenter.heroku.com"),
    Format("easypost-key", ("EZAK", "EZTK"), r"\bEZ[AT]K[A-Za-z0-9]{54}\b", "docs.easypost.com"),
    Format("flyio-token", ("FlyV1 ", "fm2_"), r"\bFlyV1 fm\d_[A-Za-z0-9+/=,_-]{60,900}|\bfm2_[A-Za-z0-9+/=]{100,900}", "fly.io/docs: tokens", loose=True),
    Format("azure-client-secret", ("Q~",), r"(?<![\w.~-])[\w.~-]{3}\dQ~[\w.~-]{31,34}(?![\w~-])", "learn.microsoft.com: client secrets", (4,)),
    Format("mapbox-token", ("sk.eyJ",), r"\bsk\.eyJ[\w-]{40,200}\.[\w-]{20,60}", "docs.mapbox.com: access tokens"),
    Format("contentful-token", ("CFPAT-",), r"\bCFPAT-[\w-]{43}", "contentful.com/developers"),
    Format("dropbox-token", ("sl.",), r"\bsl\.[\w-]{130,200}", "dropbox.com/developers: OAuth guide"),
    Format("facebook-token", ("EAA",), r"\bEAA[A-Za-z0-9]{50,300}\b", "developers.facebook.com: access tokens"),
    Format("amazon-mws-token", ("amzn.mws.",), rf"\bamzn\.mws\.[{_HEX}-]{{36}}", "docs.developer.amazonservices.com"),
    Format("bedrock-key", ("ABSK",), r"\bABSK[A-Za-z0-9+/]{100,270}={0,2}", "docs.aws.amazon.com/bedrock: API keys"),
    Format("google-hmac-key", ("GOOG1",), r"\bGOOG1[A-Z2-7]{20,60}\b", "cloud.google.com/storage: HMAC keys"),
    Format("google-refresh-token", ("1//0",), r"(?<![\w/])1//0[\w-]{40,200}", "developers.google.com: OAuth 2.0"),
    Format("firebase-key", (":APA91b",), r"\bAAAA[\w-]{7}:APA91b[\w-]{100,200}", "firebase.google.com: cloud messaging", (11,)),
    Format("circleci-token", ("CCIPAT_", "CCIPRJ_"), rf"\bCCIP(?:AT|RJ)_[A-Za-z0-9]{{20,24}}_[{_HEX}]{{40}}\b", "circleci.com/docs: API tokens"),
    Format("buildkite-token", ("bkua_",), rf"\bbkua_[{_HEX}]{{40}}\b", "buildkite.com/docs"),
    Format("netlify-token", ("nfp_",), r"\bnfp_[A-Za-z0-9]{36}\b", "docs.netlify.com"),
    Format("render-key", ("rnd_",), r"\brnd_[A-Za-z0-9]{28,36}\b", "render.com/docs"),
    Format("tailscale-key", ("tskey-",), r"\btskey-(?:auth|api|client|scim|webhook)-[A-Za-z0-9]{8,20}-[A-Za-z0-9]{20,40}\b", "tailscale.com/kb: key prefixes"),
    Format("langsmith-key", ("lsv2_",), rf"\blsv2_(?:pt|sk)_[{_HEX}]{{32}}_[{_HEX}]{{10}}\b", "docs.smith.langchain.com"),
    Format("pinecone-key", ("pcsk_",), r"\bpcsk_[A-Za-z0-9]{4,8}_[A-Za-z0-9]{40,80}\b", "docs.pinecone.io"),
    Format("posthog-key", ("phx_", "phs_"), r"\bph[xs]_[A-Za-z0-9]{40,60}\b", "posthog.com/docs"),
    Format("resend-key", ("re_",), r"\bre_[A-Za-z0-9]{8}_[A-Za-z0-9]{24}\b", "resend.com/docs"),
    Format("brevo-key", ("xkeysib-", "xsmtpsib-"), rf"\bx(?:key|smtp)sib-[{_HEX}]{{64}}-[A-Za-z0-9]{{16}}\b", "developers.brevo.com"),
    Format("typeform-token", ("tfp_",), r"\btfp_[\w-]{40,64}", "typeform.com/developers"),
    Format("asana-token", ("1/",), rf"(?<![\w/])[12]/\d{{13,20}}(?:/\d{{13,20}})?:[{_HEX}]{{32}}\b", "developers.asana.com: personal access tokens"),
    Format("okta-token", ("SSWS ",), r"\bSSWS ([\w-]{40,50})", "developer.okta.com: API tokens", loose=True),
    Format("masked-value", ("::add-mask::",), r"::add-mask::(\S{6,400})", "docs.github.com: workflow commands", loose=True),
    Format("office-webhook", ("webhookb2/",), r"webhookb2/([\w@-]{70,80}/IncomingWebhook/[\w/-]{30,120})", "learn.microsoft.com: incoming webhooks", loose=True),
    Format("zapier-webhook", ("hooks.zapier.com/",), r"hooks\.zapier\.com/hooks/catch/([\w/]{10,40})", "zapier.com/help: webhooks", loose=True),
    Format("azure-storage-key", ("AccountKey=", "SharedAccessKey="), r"\b(?:Account|SharedAccess)Key=([A-Za-z0-9+/]{40,88}={0,2})", "learn.microsoft.com: connection strings"),
    Format("jwt", ("eyJ",), r"\beyJ[A-Za-z0-9_-]{10,2000}\.eyJ[A-Za-z0-9_-]{10,4000}\.[A-Za-z0-9_-]{10,1000}", "RFC 7519"),
    Format("private-key", ("-----BEGIN ",), r"-----BEGIN (?:[A-Z]{2,12} ){0,2}PRIVATE KEY(?: BLOCK)?-----(?:(?!-----)[A-Za-z0-9+/=\s\\:,.>|-]){40,20000}+(?:-----END [A-Z ]{0,40}-----)?", "RFC 7468", loose=True),
    Format("ssh2-key", ("---- BEGIN SSH2",), r"---- BEGIN SSH2 (?:ENCRYPTED )?PRIVATE KEY ----(?:(?!---- )[\w+/=\s:,.()@\"-]){40,20000}+(?:---- END [A-Z0-9 ]{0,40}----)?", "RFC 4716", loose=True),
    Format("putty-key", ("Private-Lines: ",), r"Private-Lines: \d{1,4}\s{1,4}([A-Za-z0-9+/=]{16,80}(?:\r?\n[ \t]{0,8}[A-Za-z0-9+/=]{4,80}(?=\s|$)){0,400}+)", "PuTTY user manual: PPK format", loose=True),
    Format("authorization", ("earer ", "EARER "), r"\b[Bb](?:earer|EARER) ([\w.~+/-]{20,2000}=*)", "RFC 6750", (1,), loose=True),
    Format("authorization-header", ("uthorization", "UTHORIZATION"), r"(?:uthorization|UTHORIZATION)[\"']?\s{0,3}[:=,]\s{0,3}[\"']?(?:[A-Za-z][\w-]{2,20} )([\w.~+/-]{12,2000}={0,2})", "RFC 7617, RFC 6750", loose=True),
    Format("npmrc", (":_auth", ":_password"), r":_(?:auth(?:Token)?|password)\s{0,3}=\s{0,3}[\"']?([\w.~+/-]{8,400}={0,2})", "docs.npmjs.com: .npmrc", loose=True),
    Format("docker-auth", ('"auth"',), r"\"auth\"\s{0,3}:\s{0,3}\"([A-Za-z0-9+/]{12,500}={0,2})\"", "docs.docker.com: config.json", loose=True),
    Format("shared-access-signature", ("sig=",), r"(?<=[?&;])sig=([\w%+/=-]{20,200})", "learn.microsoft.com: SAS", loose=True),
    Format("pgpass", (":543", ":6432:"), r":\d{4,5}:[\w*-]{1,60}:[\w*-]{1,60}:(\S{4,100})(?=\s|$)", "postgresql.org: the password file", loose=True),
    Format("command-line", ("curl ", "sshpass ", "docker login ", "redis-cli ", "mysql", "mongo", "openssl ", "zip ", "lftp ", "smbclient ", "http ", "rabbitmqctl ",
            "htpasswd ", "ldap", "exec ", "7z ", "7za ", "rar ", "sqlcmd ", "bcp ", "mosquitto_", "ipmitool ", "cqlsh ", "freerdp ", "net user ", "winexe ", "rpcclient "),
           r"(?:curl [^\n]{0,300}?(?<= )(?:-u|--user)[ =]?[\"']?[^\s:\"']{1,100}:|(?:sshpass|docker login) [^\n]{0,200}?(?<= )-p ?[\"']?"
           r"|redis-cli [^\n]{0,200}?(?<= )-a ?[\"']?|mysql(?:dump|admin)? [^\n]{0,200}?(?<= )-p[\"']?(?=[^\s\"'-])"
           r"|mongo(?:sh|dump|restore|import|export)? [^\n]{0,200}?(?<= )-p ?[\"']?|openssl [^\n]{0,200}?(?<= )-pass(?:in|out)? [\"']?pass:"
           r"|zip [^\n]{0,200}?(?<= )-P ?[\"']?|lftp [^\n]{0,100}?(?<= )-u [^\s,]{1,60},|smbclient [^\n]{0,200}?(?<= )-U [\"']?[^\s%]{1,60}%"
           r"|http [^\n]{0,200}?(?<= )-a [^\s:]{1,60}:|rabbitmqctl (?:add_user|change_password) [^\s]{1,60} [\"']?"
           r"|htpasswd (?:-[a-zA-Z]{1,8} ){0,3}?-[a-zA-Z]{0,8}b[a-zA-Z]{0,8} (?:-[a-zA-Z]{1,8} ){0,3}[^\s]{1,200} [^\s]{1,100} [\"']?|ldap(?:search|add|modify|delete|passwd|whoami) [^\n]{0,200}?(?<= )-w ?[\"']?"
           r"|(?:exec|cqlsh) [^\n]{0,200}?(?<= )-p [\"']?|(?:7za?|rar) [^\n]{0,200}?(?<= )-h?p(?=[^\s-])[\"']?"
           r"|(?:sqlcmd|bcp|mosquitto_(?:pub|sub)|ipmitool) [^\n]{0,200}?(?<= )-P ?[\"']?|freerdp [^\n]{0,200}?(?<= )/p:[\"']?"
           r"|net user [^\s/]{1,60} (?!/)[\"']?|(?:winexe|rpcclient) [^\n]{0,200}?(?<= )-U [\"']?[^\s%]{1,60}%)([^\s\"']{4,200})", "manuals of these commands", loose=True),
    Format("fernet-key", ("Fernet(",), r"Fernet\(b?[\"']([\w-]{43}=)", "cryptography.io: Fernet", loose=True),
    Format("password-hash", ("$apr1$", "$1$", "$5$", "$6$", "$y$", "$2a$", "$2b$", "$2y$", "$argon2", "{SHA}", "{SSHA}", "pbkdf2_sha"),
           r"(?:\$(?:apr1|[156])\$(?:rounds=\d{1,9}\$)?[./\w]{1,16}\$[./\w]{22,86}|\$y\$[./\w]{1,8}\$[./\w]{1,86}\$[./\w]{43}|\$2[aby]\$\d\d\$[./\w]{53}"
           r"|\$argon2(?:id|i|d)\$[\w=,$]{5,60}\$[\w+/]{11,64}\$[\w+/]{16,128}|\{S?SHA\}[\w+/]{27,80}={0,2}|pbkdf2_sha(?:1|256|512)\$\d{1,9}\$[\w+/.-]{1,64}\$[\w+/.]{27,90}={0,2})",
           "httpd.apache.org: password formats; crypt(5)", loose=True),
    Format("aws-secret-key", ("aws", "AWS"), r"(?:aws|AWS)[\w-]{0,20}(?:[Ss]ecret|SECRET)[\w -]{0,20}[\"']?\s{0,3}(?:[=:]|=>)\s{0,3}[\"']?([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])", "docs.aws.amazon.com/IAM: access keys", loose=True),
    Format("url-token", ("://",), r"://([\w-]{20,200})(?::[^\s:/@\"'<>`]{0,200})?@[\w.\[-]", "RFC 3986", loose=True),
    Format("url-credentials", ("://",), r"://[^\s:/@\"'<>`]{0,100}:([^\s:/@\"'<>`]{3,200})@[\w.\[-]", "RFC 3986", loose=True),
)  # fmt: skip

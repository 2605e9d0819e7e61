/** Requests for tools in the words of an agent, written before any search was run on them. */

/** What is looked for, words that name the server, and the tools that do it, as `server:tool`. */
export type SearchRequest = readonly [wanted: string, where: string, tools: readonly string[]];

/** The requests. Where several servers can do the same, each of their tools counts. */
export const REQUESTS: readonly SearchRequest[] = [
  ["read rows of a table", "in Airtable", [
    "airtable-mcp-server:list_records",
    "airtable-mcp-server:search_records",
  ]],
  ["add a column to a base", "airtable", ["airtable-mcp-server:create_field"]],
  ["attach a file to a row", "of Airtable", ["airtable-mcp-server:upload_attachment"]],
  ["which bases do I have access to", "airtable", ["airtable-mcp-server:list_bases"]],
  ["run unit tests of the workspace", "Angular CLI", ["angular-cli:test"]],
  ["start the development server", "with angular", ["angular-cli:devserver.start"]],
  ["find a scraper for Instagram", "on Apify", ["apify-actors-mcp-server:search-actors"]],
  ["launch a scraper", "apify", ["apify-actors-mcp-server:call-actor"]],
  ["stop a run that is in progress", "apify actor", ["apify-actors-mcp-server:abort-actor-run"]],
  ["download the results of a scraping run", "apify", [
    "apify-actors-mcp-server:get-dataset-items",
    "apify-actors-mcp-server:get-actor-output",
  ]],
  ["who deleted this bucket, look through the audit events", "CloudTrail", [
    "aws-cloudtrail:lookup_events",
    "aws-cloudtrail:lake_query",
  ]],
  ["fetch cpu metric values over time", "from CloudWatch", ["aws-cloudwatch:get_metric_data"]],
  ["show alarms that are firing", "cloudwatch", ["aws-cloudwatch:get_active_alarms"]],
  ["query log groups for errors", "in CloudWatch logs", [
    "aws-cloudwatch:execute_log_insights_query",
    "aws-cloudwatch:analyze_log_group",
    "aws-cloudwatch:execute_cwl_insights_batch",
  ]],
  ["how much did we spend last month", "on AWS, cost explorer", [
    "aws-billing-cost-management:cost-explorer",
  ]],
  ["unexpected spending spikes", "AWS billing", ["aws-billing-cost-management:cost-anomaly"]],
  ["look up a page of the AWS docs", "aws documentation", [
    "aws-documentation:search_documentation",
    "aws-documentation:read_documentation",
  ]],
  ["remove documents from a collection", "in DocumentDB", ["aws-documentdb:delete"]],
  ["count how many documents match", "documentdb", ["aws-documentdb:countDocuments"]],
  ["see the output of a crashing pod", "on EKS", [
    "aws-eks:get_pod_logs",
    "mcp-server-kubernetes:kubectl_logs",
  ]],
  ["apply a manifest file to the cluster", "eks", [
    "aws-eks:apply_yaml",
    "mcp-server-kubernetes:kubectl_apply",
  ]],
  ["make a new redis cache cluster", "in ElastiCache", [
    "aws-elasticache:create-cache-cluster",
    "aws-elasticache:create-replication-group",
    "aws-elasticache:create-serverless-cache",
  ]],
  ["erase all data of a patient", "health imaging", ["aws-healthimaging:delete_patient_studies"]],
  ["get everything about one patient", "HealthLake", ["aws-healthlake:patient_everything"]],
  ["kick off a genomics workflow", "HealthOmics", [
    "aws-healthomics:StartAHORun",
    "aws-healthomics:StartAHORunBatch",
  ]],
  ["give a person permission by attaching a policy", "IAM", ["aws-iam:attach_user_policy"]],
  ["would this principal be allowed to do that", "iam simulate", [
    "aws-iam:simulate_principal_policy",
  ]],
  ["new access key for a user", "aws iam", ["aws-iam:create_access_key"]],
  ["put somebody into a group", "IAM", ["aws-iam:add_user_to_group"]],
  ["list firewalls and their rules", "AWS network", [
    "aws-network:get_firewall_rules",
    "aws-network:list_firewalls",
  ]],
  ["price of an instance type", "AWS pricing", [
    "aws-pricing:get_pricing",
    "aws-billing-cost-management:aws-pricing",
  ]],
  ["run a SQL statement", "on Redshift", ["aws-redshift:execute_query"]],
  ["columns of a table", "redshift", ["aws-redshift:list_columns"]],
  ["load a csv file into a table", "S3 tables", ["aws-s3-tables:import_csv_to_table"]],
  ["deploy my serverless application", "with SAM", ["aws-serverless:sam_deploy"]],
  ["package the lambda code", "aws serverless sam", ["aws-serverless:sam_build"]],
  ["secrets in the vault", "Azure", ["azure-mcp:keyvault"]],
  ["query a NoSQL database", "azure cosmos", ["azure-mcp:cosmos"]],
  ["press a button on the page", "chrome devtools", [
    "chrome-devtools-mcp:click",
    "playwright-mcp:browser_click",
  ]],
  ["capture a picture of the page", "in Chrome", [
    "chrome-devtools-mcp:take_screenshot",
    "playwright-mcp:browser_take_screenshot",
  ]],
  ["record a performance profile", "chrome devtools", [
    "chrome-devtools-mcp:performance_start_trace",
  ]],
  ["go to a url in the browser", "chrome", [
    "chrome-devtools-mcp:navigate_page",
    "chrome-devtools-mcp:new_page",
    "playwright-mcp:browser_navigate",
  ]],
  ["errors printed in the console", "of the Chrome page", [
    "chrome-devtools-mcp:list_console_messages",
    "chrome-devtools-mcp:get_console_message",
    "playwright-mcp:browser_console_messages",
  ]],
  ["why did the build fail", "on CircleCI", [
    "circleci-mcp-server-circleci:get_build_failure_logs",
  ]],
  ["tests that sometimes fail", "circleci", ["circleci-mcp-server-circleci:find_flaky_tests"]],
  ["trigger a pipeline", "circleci", ["circleci-mcp-server-circleci:run_pipeline"]],
  ["read the layout of a design", "in Figma", ["figma-developer-mcp:get_figma_data"]],
  ["save icons of a design", "figma", ["figma-developer-mcp:download_figma_images"]],
  ["turn a web page into markdown", "with Firecrawl", [
    "firecrawl-mcp:firecrawl_scrape",
    "py-fetch:fetch",
  ]],
  ["discover all urls of a site", "firecrawl", [
    "firecrawl-mcp:firecrawl_map",
    "firecrawl-mcp:firecrawl_crawl",
  ]],
  ["pull structured data out of pages with a schema", "firecrawl", [
    "firecrawl-mcp:firecrawl_extract",
    "firecrawl-mcp:firecrawl_scrape",
  ]],
  ["open a bug report", "on GitHub", [
    "github:create_issue",
    "github:issue_write",
    "mcp-server-github:create_issue",
    "zereight-mcp-gitlab:create_issue",
    "py-atlassian:jira_create_issue",
  ]],
  ["make a pull request", "on github", [
    "github:create_pull_request",
    "mcp-server-github:create_pull_request",
  ]],
  ["find repos about machine learning", "in GitHub", [
    "github:search_repositories",
    "mcp-server-github:search_repositories",
  ]],
  ["get the content of a file in a repository", "github", [
    "github:get_file_contents",
    "mcp-server-github:get_file_contents",
    "zereight-mcp-gitlab:get_file_contents",
  ]],
  ["merge a PR", "github", ["github:merge_pull_request", "mcp-server-github:merge_pull_request"]],
  ["show recent commits", "of the GitHub repo", [
    "github:list_commits",
    "mcp-server-github:list_commits",
    "zereight-mcp-gitlab:list_commits",
    "py-git:git_log",
  ]],
  ["where is this function used across all code", "on GitHub", [
    "github:search_code",
    "mcp-server-github:search_code",
  ]],
  ["reply to an issue", "on GitHub", [
    "github:add_issue_comment",
    "mcp-server-github:add_issue_comment",
  ]],
  ["start a workflow run", "GitHub actions", ["github:actions_run_trigger"]],
  ["copy somebody's repo to my account", "github", [
    "github:fork_repository",
    "mcp-server-github:fork_repository",
    "zereight-mcp-gitlab:fork_repository",
  ]],
  ["scale the dynos", "Heroku", ["heroku-mcp-server:ps_scale"]],
  ["see the app's log lines", "on heroku", ["heroku-mcp-server:get_app_logs"]],
  ["reboot the app", "heroku", ["heroku-mcp-server:ps_restart"]],
  ["run sql on the postgres database", "of the heroku app", ["heroku-mcp-server:pg_psql"]],
  ["look up contacts by email", "in HubSpot", ["hubspot-mcp-server:hubspot-search-objects"]],
  ["add new companies", "to hubspot", ["hubspot-mcp-server:hubspot-batch-create-objects"]],
  ["send a text to a user", "on LINE", ["line-line-bot-mcp-server:push_text_message"]],
  ["message all followers", "line bot", [
    "line-line-bot-mcp-server:broadcast_text_message",
    "line-line-bot-mcp-server:broadcast_flex_message",
  ]],
  ["add two numbers", "everything server", ["mcp-server-everything:get-sum"]],
  ["what is in this folder", "on the filesystem", [
    "mcp-server-filesystem:list_directory",
    "mcp-server-filesystem:list_directory_with_sizes",
    "mcp-server-filesystem:directory_tree",
  ]],
  ["rename a file", "filesystem", ["mcp-server-filesystem:move_file"]],
  ["save text to a file", "filesystem", ["mcp-server-filesystem:write_file"]],
  ["change some lines in a file", "filesystem", ["mcp-server-filesystem:edit_file"]],
  ["when was the file last modified", "file system", ["mcp-server-filesystem:get_file_info"]],
  ["open several files together", "filesystem", ["mcp-server-filesystem:read_multiple_files"]],
  ["run a command inside a container", "kubernetes pod", ["mcp-server-kubernetes:exec_in_pod"]],
  ["restart a deployment", "on Kubernetes", ["mcp-server-kubernetes:kubectl_rollout"]],
  ["install a chart", "helm kubernetes", ["mcp-server-kubernetes:install_helm_chart"]],
  ["remember a fact about a person", "in memory", [
    "mcp-server-memory:add_observations",
    "mcp-server-memory:create_entities",
  ]],
  ["forget an entity", "memory graph", ["mcp-server-memory:delete_entities"]],
  ["post a message to a channel", "on Slack", ["mcp-server-slack:slack_post_message"]],
  ["which channels are there", "in slack", ["mcp-server-slack:slack_list_channels"]],
  ["put an emoji on a message", "slack", ["mcp-server-slack:slack_add_reaction"]],
  ["read the last messages of a channel", "slack", ["mcp-server-slack:slack_get_channel_history"]],
  ["make a new page", "in Notion", ["notionhq-notion-mcp-server:API-post-page"]],
  ["append text to a page", "notion", ["notionhq-notion-mcp-server:API-patch-block-children"]],
  ["filter rows of a database", "in Notion", ["notionhq-notion-mcp-server:API-query-data-source"]],
  ["write in an input field", "with Playwright", [
    "playwright-mcp:browser_type",
    "playwright-mcp:browser_fill_form",
    "chrome-devtools-mcp:fill",
  ]],
  ["upload a file through the browser", "playwright", [
    "playwright-mcp:browser_file_upload",
    "chrome-devtools-mcp:upload_file",
  ]],
  ["delete cookies", "playwright", [
    "playwright-mcp:browser_cookie_delete",
    "playwright-mcp:browser_cookie_clear",
  ]],
  ["find tickets assigned to me", "in Jira", ["py-atlassian:jira_search"]],
  ["move a ticket to done", "jira", ["py-atlassian:jira_transition_issue"]],
  ["log hours on a ticket", "jira", ["py-atlassian:jira_add_worklog"]],
  ["write a wiki page", "in Confluence", ["py-atlassian:confluence_create_page"]],
  ["read this sentence aloud", "ElevenLabs", ["py-elevenlabs:text_to_speech"]],
  ["transcribe a recording", "elevenlabs", ["py-elevenlabs:speech_to_text"]],
  ["copy my voice from samples", "eleven labs", ["py-elevenlabs:voice_clone"]],
  ["draw a bar chart in a spreadsheet", "Excel", ["py-excel:create_chart"]],
  ["get cell values", "of the Excel sheet", ["py-excel:read_data_from_excel"]],
  ["add a sheet", "to the excel workbook", ["py-excel:create_worksheet"]],
  ["make cells bold", "in excel", ["py-excel:format_range"]],
  ["download a web page", "fetch", ["py-fetch:fetch", "firecrawl-mcp:firecrawl_scrape"]],
  ["which files have I changed", "in git", [
    "py-git:git_status",
    "py-git:git_diff_unstaged",
    "py-git:git_diff",
  ]],
  ["save my staged changes", "with git", ["py-git:git_commit"]],
  ["switch to another branch", "git", ["py-git:git_checkout"]],
  ["what time is it in Tokyo", "time server", ["py-time:get_current_time", "py-time:convert_time"]],
  ["recent crashes of my application", "in Sentry", [
    "sentry-mcp-server:search_issues",
    "sentry-mcp-server:search_issue_events",
    "sentry-mcp-server:search_events",
  ]],
  ["find the root cause of an error", "sentry", ["sentry-mcp-server:analyze_issue_with_seer"]],
  ["mark an error as resolved", "sentry", ["sentry-mcp-server:update_issue"]],
  ["accept a merge request", "on GitLab", [
    "zereight-mcp-gitlab:merge_merge_request",
    "zereight-mcp-gitlab:approve_merge_request",
  ]],
  ["retry a failed job", "of the gitlab pipeline", [
    "zereight-mcp-gitlab:retry_pipeline_job",
    "zereight-mcp-gitlab:retry_pipeline",
  ]],
  ["comment on a merge request", "gitlab", [
    "zereight-mcp-gitlab:create_merge_request_note",
    "zereight-mcp-gitlab:create_note",
    "zereight-mcp-gitlab:create_merge_request_thread",
  ]],
  ["members of a project", "gitlab", ["zereight-mcp-gitlab:list_project_members"]],
];

/** A request, and the tools of other servers that do the same: they count where no server is named. */
export type SampledRequest = readonly [...SearchRequest, elsewhere?: readonly string[]];

/**
 * Requests for tools that a program drew: two of each server, then one of each of the largest, that
 * {@linkcode REQUESTS} does not want, as far as there are any. Each was worded from the tool's name and
 * the beginning of its description.
 */
export const SAMPLED: readonly SampledRequest[] = [
  ["see what people wrote about a record", "in Airtable", ["airtable-mcp-server:list_comments"]],
  ["which tables are in this base", "airtable", ["airtable-mcp-server:list_tables"]],
  ["shut down the dev server", "of the Angular app", ["angular-cli:devserver.stop"]],
  ["coding conventions to follow when I write components", "Angular", [
    "angular-cli:get_best_practices",
  ]],
  ["what fields do the scraped items have", "apify", [
    "apify-actors-mcp-server:get-dataset-schema",
  ]],
  ["did my scraper finish", "on Apify", [
    "apify-actors-mcp-server:get-actor-run",
    "apify-actors-mcp-server:get-actor-run-list",
  ]],
  ["remove an OAuth2 credential provider", "from AgentCore", [
    "aws-amazon-bedrock-agentcore:identity_delete_oauth2_provider",
  ]],
  ["rotate the api key that agents use", "Bedrock AgentCore", [
    "aws-amazon-bedrock-agentcore:identity_update_api_key_provider",
  ]],
  ["history of cost allocation tag backfills", "AWS billing", [
    "aws-billing-cost-management:list-cost-allocation-tag-backfill-history",
  ]],
  ["which linked accounts does the payer have", "aws billing", [
    "aws-billing-cost-management:list-account-associations",
  ]],
  ["scan my CloudFormation template for security problems", "aws ccapi", [
    "aws-ccapi:run_checkov",
  ]],
  ["write the infrastructure code for a new bucket before creating it", "with aws ccapi", [
    "aws-ccapi:generate_infrastructure_code",
  ]],
  ["list event data stores", "cloudtrail lake", ["aws-cloudtrail:list_event_data_stores"]],
  ["fetch the rows of the query that I started", "in CloudTrail", [
    "aws-cloudtrail:get_query_results",
  ], [
    "aws-cloudwatch:get_logs_insight_query_results",
    "aws-dataprocessing:manage_aws_athena_query_executions",
  ]],
  ["latency and error rate of the checkout service", "CloudWatch Application Signals", [
    "aws-cloudwatch-applicationsignals:query_service_metrics",
    "aws-cloudwatch-applicationsignals:audit_services",
    "aws-cloudwatch-applicationsignals:audit_service_operations",
    "aws-cloudwatch-applicationsignals:get_endpoint_performance",
    "aws-cloudwatch-applicationsignals:get_service_health_overview",
  ]],
  ["what does the payment group depend on", "application signals", [
    "aws-cloudwatch-applicationsignals:get_group_dependencies",
  ]],
  ["is there a trend or seasonality in this metric", "cloudwatch", [
    "aws-cloudwatch:analyze_metric",
  ]],
  ["unit and recommended statistic of a metric", "in CloudWatch", [
    "aws-cloudwatch:get_metric_metadata",
  ]],
  ["save an SQL query so that the team can reuse it", "in Athena, aws data processing", [
    "aws-dataprocessing:manage_aws_athena_named_queries",
  ]],
  ["create a Glue data catalog", "AWS data processing", [
    "aws-dataprocessing:manage_aws_glue_catalog",
  ]],
  ["find the row with the Lambda timeout in a big quota table", "aws documentation", [
    "aws-documentation:search_table",
  ]],
  ["other pages related to this one", "of the AWS documentation", ["aws-documentation:recommend"]],
  ["open a connection to the cluster", "DocumentDB", ["aws-documentdb:connect"]],
  ["drop a whole collection", "documentdb", ["aws-documentdb:dropCollection"]],
  ["give a role more permissions with an inline policy", "EKS", [
    "aws-eks:add_inline_policy",
  ], [
    "aws-dataprocessing:add_inline_policy",
    "aws-iam:put_role_policy",
  ]],
  ["delete a deployment", "from the EKS cluster", ["aws-eks:manage_k8s_resource"], [
    "mcp-server-kubernetes:kubectl_delete",
    "zereight-mcp-gitlab:delete_deployment",
  ]],
  ["status of my replication groups", "ElastiCache", [
    "aws-elasticache:describe-replication-groups",
  ]],
  ["change the node type of a cache cluster", "elasticache", [
    "aws-elasticache:modify-cache-cluster",
  ]],
  ["find image sets in a data store", "HealthImaging", ["aws-healthimaging:search_image_sets"]],
  ["correct a patient's name in all of their studies", "health imaging", [
    "aws-healthimaging:bulk_update_patient_metadata",
    "aws-healthimaging:update_patient_study_metadata",
  ]],
  ["load FHIR data from S3", "into HealthLake", ["aws-healthlake:start_fhir_import_job"]],
  ["find all patients born after 1980", "HealthLake", ["aws-healthlake:search_fhir_resources"]],
  ["limit the CPUs that a set of runs may take with a new run group", "HealthOmics", [
    "aws-healthomics:CreateAHORunGroup",
  ]],
  ["raise the maximum GPUs of a run group", "in HealthOmics", [
    "aws-healthomics:UpdateAHORunGroup",
  ]],
  ["get rid of a group that nobody is in", "IAM", ["aws-iam:delete_group"]],
  ["all users of the account", "AWS IAM", ["aws-iam:list_users"], [
    "notionhq-notion-mcp-server:API-get-users",
    "mcp-server-slack:slack_get_users",
  ]],
  ["is traffic on the Cloud WAN path inspected by a firewall", "aws network", [
    "aws-network:detect_cwan_inspection",
  ]],
  ["flow logs of the transit gateway", "aws network", ["aws-network:get_tgw_flow_logs"]],
  ["which values can the region filter have for EC2 prices", "AWS pricing", [
    "aws-pricing:get_pricing_attribute_values",
  ]],
  ["download the complete price list as a file", "aws pricing", [
    "aws-pricing:get_price_list_urls",
  ]],
  ["show the tables of a schema", "in Redshift", ["aws-redshift:list_tables"], [
    "aws-s3-tables:list_tables",
    "aws-dataprocessing:manage_aws_athena_databases_and_tables",
  ]],
  ["diagnose problems of the data warehouse cluster", "redshift", ["aws-redshift:review_cluster"]],
  ["point a table to a new metadata file", "S3 tables", [
    "aws-s3-tables:update_table_metadata_location",
  ]],
  ["make a namespace to group tables", "s3 tables", ["aws-s3-tables:create_namespace"]],
  ["tune batch size and concurrency of my Kinesis trigger", "aws serverless", [
    "aws-serverless:esm_optimize",
  ]],
  ["set up a Lambda that reads from Kafka", "AWS serverless", ["aws-serverless:esm_guidance"]],
  ["list resource groups", "in Azure", ["azure-mcp:group_list"]],
  ["make a Lustre file system", "azure", ["azure-mcp:managedlustre"]],
  ["get the accessibility tree of the page", "chrome devtools", [
    "chrome-devtools-mcp:take_snapshot",
  ], ["playwright-mcp:browser_snapshot"]],
  ["finish recording the performance trace", "chrome devtools", [
    "chrome-devtools-mcp:performance_stop_trace",
  ], ["playwright-mcp:browser_stop_tracing"]],
  ["which projects am I following", "CircleCI", [
    "circleci-mcp-server-circleci:list_followed_projects",
  ]],
  ["versions of a deployed component", "circleci", [
    "circleci-mcp-server-circleci:list_component_versions",
  ]],
  ["text and colors of a frame in the mockup", "Figma", ["figma-developer-mcp:get_figma_data"]],
  ["export the logo as SVG", "from Figma", ["figma-developer-mcp:download_figma_images"]],
  ["pause a page monitor", "firecrawl", ["firecrawl-mcp:firecrawl_monitor_update"]],
  ["click through a site and fill in its form in a live browser", "firecrawl", [
    "firecrawl-mcp:firecrawl_interact",
  ], [
    "playwright-mcp:browser_click",
    "playwright-mcp:browser_fill_form",
    "chrome-devtools-mcp:click",
    "chrome-devtools-mcp:fill",
    "chrome-devtools-mcp:fill_form",
  ]],
  ["throw away my unsubmitted review", "on GitHub", [
    "github:delete_pending_pull_request_review",
    "github:pull_request_review_write",
  ]],
  ["find commits that mention a security fix", "github", ["github:search_commits"]],
  ["find blocked queries and deadlocks", "heroku postgres", ["heroku-mcp-server:pg_locks"]],
  ["give the app another name", "heroku", ["heroku-mcp-server:rename_app"]],
  ["which automation workflows exist", "in HubSpot", [
    "hubspot-mcp-server:hubspot-list-workflows",
  ], ["github:actions_list"]],
  ["tell the makers that a tool does not work", "hubspot", [
    "hubspot-mcp-server:hubspot-generate-feedback-link",
  ], ["firecrawl-mcp:firecrawl_feedback"]],
  ["send a user a carousel of cards", "LINE", ["line-line-bot-mcp-server:push_flex_message"]],
  ["what menus does the official account have", "LINE bot", [
    "line-line-bot-mcp-server:get_rich_menu_list",
  ]],
  ["run a pretend research task with progress", "everything server", [
    "mcp-server-everything:simulate-research-query",
    "mcp-server-everything:trigger-long-running-operation",
  ]],
  ["compress a file", "everything", ["mcp-server-everything:gzip-file-as-resource"]],
  ["find all .csv files below a folder", "filesystem", ["mcp-server-filesystem:search_files"]],
  ["show me what is in notes.txt", "file system", [
    "mcp-server-filesystem:read_file",
    "mcp-server-filesystem:read_text_file",
    "mcp-server-filesystem:read_multiple_files",
  ], [
    "github:get_file_contents",
    "mcp-server-github:get_file_contents",
    "zereight-mcp-gitlab:get_file_contents",
  ]],
  ["has anybody approved the pull request yet", "github", [
    "mcp-server-github:get_pull_request_reviews",
    "github:pull_request_read",
  ], ["zereight-mcp-gitlab:get_merge_request_approval_state"]],
  ["remarks of reviewers on the code of a PR", "on github", [
    "mcp-server-github:get_pull_request_comments",
    "github:pull_request_read",
  ]],
  ["run an arbitrary kubectl command", "kubernetes", ["mcp-server-kubernetes:kubectl_generic"]],
  ["what kinds of objects does the cluster know", "kubernetes", [
    "mcp-server-kubernetes:list_api_resources",
  ], ["aws-eks:list_api_versions"]],
  ["these two people no longer work together, drop that link", "memory graph", [
    "mcp-server-memory:delete_relations",
  ]],
  ["everything you remember so far", "in memory", ["mcp-server-memory:read_graph"]],
  ["answers in a thread", "on Slack", ["mcp-server-slack:slack_get_thread_replies"]],
  ["answer to a message in its thread", "slack", ["mcp-server-slack:slack_reply_to_thread"], [
    "zereight-mcp-gitlab:create_merge_request_discussion_note",
  ]],
  ["remove a paragraph from a page", "notion", ["notionhq-notion-mcp-server:API-delete-a-block"]],
  ["which bot am I logged in as", "in Notion", ["notionhq-notion-mcp-server:API-get-self"], [
    "github:get_me",
    "sentry-mcp-server:whoami",
    "zereight-mcp-gitlab:whoami",
  ]],
  ["make the browser window smaller", "playwright", ["playwright-mcp:browser_resize"], [
    "chrome-devtools-mcp:resize_page",
    "chrome-devtools-mcp:emulate",
  ]],
  ["which requests are being mocked", "playwright", ["playwright-mcp:browser_route_list"]],
  ["create several releases in a project", "Jira", [
    "py-atlassian:jira_batch_create_versions",
    "py-atlassian:jira_create_version",
  ]],
  ["epics of a project grouped by their parent", "jira", [
    "py-atlassian:jira_get_project_epic_hierarchy",
  ]],
  ["details of one voice", "ElevenLabs", ["py-elevenlabs:get_voice"]],
  ["plan the sections of a song before composing it", "elevenlabs", [
    "py-elevenlabs:create_composition_plan",
  ]],
  ["remove column C", "from the Excel sheet", ["py-excel:delete_sheet_columns"]],
  ["give the first sheet another name", "excel", ["py-excel:rename_worksheet"]],
  ["what does this url say", "fetch", ["py-fetch:fetch"], ["firecrawl-mcp:firecrawl_scrape"]],
  ["start a feature branch", "git", ["py-git:git_create_branch"], [
    "github:create_branch",
    "mcp-server-github:create_branch",
    "zereight-mcp-gitlab:create_branch",
  ]],
  ["unstage what I added", "in git", ["py-git:git_reset"]],
  ["3 pm in Berlin in New York time", "time server", ["py-time:convert_time"]],
  ["what day is it today in Sydney", "time", ["py-time:get_current_time"]],
  ["start tracking errors of a new service", "Sentry", ["sentry-mcp-server:create_project"]],
  ["which browsers does this error occur in", "sentry", [
    "sentry-mcp-server:get_issue_tag_values",
  ]],
  ["status of pipeline 4711", "GitLab", [
    "zereight-mcp-gitlab:get_pipeline",
    "zereight-mcp-gitlab:list_pipelines",
  ], ["circleci-mcp-server-circleci:get_latest_pipeline_status"]],
  ["wiki pages of a group", "gitlab", ["zereight-mcp-gitlab:list_group_wiki_pages"]],
  ["all projects that I can see", "on GitLab", ["zereight-mcp-gitlab:list_projects"], [
    "angular-cli:list_projects",
    "circleci-mcp-server-circleci:list_followed_projects",
    "py-atlassian:jira_get_all_projects",
    "sentry-mcp-server:find_projects",
  ]],
  ["who is in the platform team", "GitHub", ["github:get_team_members"]],
  ["start a sandbox to run Python in", "bedrock agentcore", [
    "aws-amazon-bedrock-agentcore:start_code_interpreter_session",
  ]],
  ["read ticket PROJ-123", "jira", ["py-atlassian:jira_get_issue"], [
    "github:issue_read",
    "mcp-server-github:get_issue",
    "zereight-mcp-gitlab:get_issue",
  ]],
  ["how many CPUs may this run group use", "HealthOmics", ["aws-healthomics:GetAHORunGroup"]],
];

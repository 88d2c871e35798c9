"""Who may call: tokens, OAuth, permissions, rate limits and quotas."""
